#!/usr/bin/env python3
"""Checks that the simulation can fail: python3 test/simulation/faults.py [NAME...]

Each fault below is one change of the product that breaks a promise. It is made in a copy of the tree
under build/faults, which is built and run until the simulation finds it, with the number of histories
given as the limit. The last line is "N passed, N failed".
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "build" / "faults" / "source"
PARTS = ("CMakeLists.txt", "CMakePresets.json", "bench", "common", "deploy", "extender", "plugin", "test")


@dataclasses.dataclass
class Fault:
    name: str
    file: str
    before: str
    after: str
    histories: int = 200


FAULTS = [
    Fault("a lost answer to a bind counts as a refusal", "extender/bind/attempt.cc",
          "    case Kind::kUnknown:\n      return resolve(Uncertainty::kNoAnswer, message);",
          "    case Kind::kUnknown:\n      return end_not_bound(BindOutcome::kConflict, message);"),
    Fault("a bind counts nothing until the watch shows it", "extender/bind/attempt.cc",
          "  context_.posted[*claim_].annotations = *annotations;",
          "  context_.posted[*claim_].annotations = *annotations;\n  context_.ledger.forget(*claim_);"),
    Fault("a pod that is being deleted holds nothing", "extender/ledger/consumers.cc",
          "if (pod->finished()) facts.phase", "if (pod->finished() || pod->metadata.being_deleted) facts.phase"),
    Fault("a relist drops assumed claims", "extender/ledger/ledger.cc",
          "    std::vector<PodUid> gone;",
          "    for (const auto& [id, entry] : std::map(claims_.assumed())) {\n"
          "      if (!uids.contains(entry->view.claim.uid.str())) release(*entry);\n    }\n"
          "    std::vector<PodUid> gone;"),
    Fault("memory does not count", "extender/bind/attempt.cc",
          "  claim.request = request.request;",
          "  claim.request = request.request;\n"
          "  for (auto& container : claim.request.containers) {\n"
          "    if (!container.whole) container.per_card.memory = MiB(1);\n  }"),
    Fault("a deleted pod is not released", "extender/ledger/ledger.cc",
          "void Ledger::remove_pod(const PodUid& uid) {",
          "void Ledger::remove_pod(const PodUid& uid) {\n  if (uid.str().ends_with('3')) return;"),
    Fault("a doubtful bind is never settled", "extender/bind/assumed_pods.cc",
          "  while (reading_ < kReconciliationsInFlight && !waiting_.empty()) read_next();", "  return;"),
    Fault("a record is not synced", "plugin/containers/pre_start_handler.cc",
          "Durability::kMachine", "Durability::kProcess"),
    Fault("a container is not compared with the uid of its pod", "plugin/allocation/decide.cc",
          "if (!expected.empty() && expected != pod.uid())", "if (false)"),
    Fault("the room on a card is not checked at the start of a container", "plugin/allocation/decide.cc",
          "if ((held.share + hold).fits_in(capacity)) return {};", "return {};"),
    Fault("a record ends with the pod at the API server", "plugin/containers/record_liveness.cc",
          "  return !at_kubelet->contains(record.owner->pod) ||", "  return true ||"),
    Fault("records are not read at the start", "plugin/state/records.cc",
          "    if (auto record = read_record(file)) {", "    if (false) {\n    } else if (auto record = read_record(file)) {\n      continue;"),
]


def copy_tree():
    """Files that are equal keep their time, so that little is compiled again."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *PARTS], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    for name in listed:
        source, copy = ROOT / name, COPY / name
        if not source.is_file() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    wanted = {COPY / name for name in listed}
    for copy in [path for path in COPY.rglob("*") if path.is_file() and path not in wanted]:
        copy.unlink()


def build(folder):
    subprocess.run(["nice", "ninja", "-C", str(folder), "mgpu-simulate"], check=True, capture_output=True)


def run(folder, histories):
    program = folder / "test" / "simulation" / "mgpu-simulate"
    command = ["setarch", os.uname().machine, "-R", str(program), f"--histories={histories}", "--time=600s",
               "--shrink-runs=0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(fault, folder):
    """Whether the simulation finds the fault."""
    path = COPY / fault.file
    text = path.read_text()
    if text.count(fault.before) != 1:
        print(f"FAILED {fault.name}: {fault.file} does not have its text once: {fault.before!r}")
        return False
    path.write_text(text.replace(fault.before, fault.after))
    try:
        build(folder)
        outcome = run(folder, fault.histories)
    except subprocess.CalledProcessError as problem:
        print(f"FAILED {fault.name}: it does not compile:\n{problem.stdout.decode()[-3000:]}")
        return False
    finally:
        path.write_text(text)
    lines = outcome.stdout.strip().splitlines()
    found = outcome.returncode == 1 and len(lines) > 1
    print(f"{'ok    ' if found else 'FAILED'} {fault.name}: {' '.join(lines[:2])}", flush=True)
    return found


def main():
    chosen = [fault for fault in FAULTS if not sys.argv[1:] or fault.name in sys.argv[1:]]
    copy_tree()
    folder = COPY.parent / "build"
    subprocess.run(["cmake", "--preset", "asan", "-S", str(COPY), "-B", str(folder)], check=True,
                   capture_output=True, cwd=COPY)
    passed = sum(check(fault, folder) for fault in chosen)
    print(f"{passed} passed, {len(chosen) - passed} failed")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
