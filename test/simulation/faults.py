#!/usr/bin/env python3
"""Checks that the simulation can fail: python3 test/simulation/faults.py [--texts | NAME...]

Each fault below is one change of the product that breaks a promise. It is made in a copy of the tree
under build/faults, which is built and run until the simulation finds it, with the number of histories
given as the limit. The last line is "N passed, N failed". With --texts it only checks that the tree has
the text that each fault changes.
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
    """`histories` is the number of histories within which the simulation finds it."""

    name: str
    file: str
    before: str
    after: str
    histories: int = 1000
    # More changes: file, text, new text.
    more: tuple = ()
    # The first seed and the difference between seeds. Every fourth history has two replicas; of 16 histories, the
    # last eight have objects that the API server refuses to change; of six, the fifth has groups; of twelve, the
    # eleventh has preemption by card; of two of these, the second has no faults.
    seeds: tuple = (1, 1)

    def changes(self):
        return ((self.file, self.before, self.after), *self.more)


TWO_REPLICAS = (4, 4)
REFUSED_OBJECTS = (10, 16)
GROUPS = (4, 6)
PREEMPTION = (10, 12)
CALM = (22, 24)

FAULTS = [
    Fault("a lost answer to a bind counts as a refusal", "extender/bind/attempt.cc",
          "      return settle({BindOutcome::kUnavailable, message});",
          "      return end_not_bound({BindOutcome::kUnavailable, message});"),
    Fault("a conflict of a bind counts as a refusal", "extender/bind/attempt.cc",
          "      return settle({BindOutcome::kConflict, message});",
          "      return end_not_bound({BindOutcome::kConflict, message});"),
    Fault("a bind has no resourceVersion", "extender/bind/attempt.cc",
          "annotations_, pod_->resource_version}", "annotations_, \"\"}"),
    Fault("a bind counts nothing until the watch shows it", "extender/bind/attempt.cc",
          "{.annotations = annotations_});\n  check_preconditions();",
          "{.annotations = annotations_});\n  context_.ledger.forget(*claim_);\n  check_preconditions();"),
    Fault("a pod that is being deleted holds nothing", "extender/ledger/consumers.cc",
          "  if (pod->finished()) facts.phase = PodPhase::kFinished;\n  if (pod->finished() ||",
          "  if (pod->finished() || pod->metadata.being_deleted) facts.phase = PodPhase::kFinished;\n"
          "  if (pod->finished() || pod->metadata.being_deleted ||"),
    Fault("a relist drops assumed claims", "extender/ledger/ledger.cc",
          "    if (entry.view.phase == Phase::kBound && !uids.contains(",
          "    if (!uids.contains("),
    Fault("filter promises the cards of a pod of a group again", "extender/verbs/pod_request.cc",
          "  return sent.constrained || !pod.pod.group.empty();",
          "  return sent.constrained && !pod.pod.group.empty();", seeds=GROUPS),
    Fault("a failed bind of a pod of a group releases its cards", "extender/ledger/nominations.cc",
          "  if (pod.group.empty() || until <= now) return;\n",
          "  if (!pod.group.empty() || until <= now) return;\n", seeds=GROUPS),
    Fault("a pod that waited for the cards of a group is not first", "extender/ledger/nominations.cc",
          "    if (has_turn && is_next) table_.set_next(",
          "    if (has_turn && !is_next) table_.set_next(", seeds=GROUPS),
    Fault("a pod that waits in Permit keeps no cards", "extender/ledger/nominations.cc",
          "  if (offer.counted_on == node.str()) return;\n  table_.stop_counting(at);\n",
          "  const bool same = offer.counted_on == node.str();\n  table_.stop_counting(at);\n  if (same) return;\n",
          seeds=GROUPS),
    Fault("pods are evicted for one that never preempts", "extender/verbs/preempt_by_card.cc",
          " || sent.never_preempts || sent.affinity", " || sent.affinity", seeds=PREEMPTION),
    Fault("pods are evicted where a terminating one suffices", "extender/verbs/preempt_by_card.cc",
          "    if (pod.ends_soon) evict(", "    if (pod.ends_soon && pod.name.empty()) evict(", seeds=CALM),
    Fault("pods are evicted where another node fits", "extender/verbs/preempt_by_card.cc",
          "      if (!reason && has_room(state.node, pod)) return take_on(state, search);\n", "", seeds=CALM),
    Fault("more pods are evicted than are needed", "extender/verbs/victims.cc",
          "    for (const std::size_t index : eviction->victims) evicted.push_back(others[index]);\n",
          "    for (const NodePod* pod : others) evicted.push_back(pod);\n", seeds=CALM),
    Fault("pods are evicted twice for one", "extender/preemptors.cc",
          " || is_evicting(pod.uid, now)) return;", ") return;",
          more=(("extender/card_preemption.cc", "pod.node_name.empty() && pod.nominated_node.empty()",
                 "pod.node_name.empty()"),
                ("extender/verbs/preempt_by_card.cc", "    if (pod.ends_soon) evict(",
                 "    if (pod.ends_soon && pod.name.empty()) evict(")), seeds=CALM),
    Fault("memory does not count", "extender/bind/attempt.cc",
          "  const auto answer =\n      context_.ledger.assume(claim_of(*pod_, args_.node),",
          "  Claim claim = claim_of(*pod_, args_.node);\n"
          "  for (auto& container : claim.request.containers) {\n"
          "    if (!container.whole) container.per_card.memory = MiB(1);\n  }\n"
          "  const auto answer =\n      context_.ledger.assume(std::move(claim),"),
    Fault("a deleted pod is not released", "extender/ledger/ledger.cc",
          "void Ledger::remove_pod(const PodUid& uid) {",
          "void Ledger::remove_pod(const PodUid& uid) {\n  if (uid.str().ends_with('3')) return;"),
    Fault("a bind of unknown outcome is never settled", "extender/bind/assumed_pods.cc",
          "  while (in_flight_ < kReconciliationsInFlight && !waiting_.empty()) settle_next();\n}",
          "}"),
    Fault("a start touches no pod", "extender/bind/start_sequence.cc",
          "  to_touch_.assign(", "  pods.clear();\n  to_touch_.assign("),
    Fault("the Lease is not read before a bind", "extender/bind/attempt.cc",
          "        if (!held) return self->end_not_bound({BindOutcome::kUnavailable, held.error().message});",
          "        if (!held && self->answered_) {\n"
          "          return self->end_not_bound({BindOutcome::kUnavailable, held.error().message});\n        }"),
    Fault("a follower answers the verbs", "extender/scheduler_routes.cc",
          "      if (!to->ready()) return to->refuse(respond);\n", "", seeds=TWO_REPLICAS),
    Fault("a replica decides before it has the Lease", "extender/bind/start_sequence.cc",
          "void StartSequence::take_lease() {\n", "void StartSequence::take_lease() {\n"
          "  if (in_flight_ == 0) return list_pending();\n", seeds=TWO_REPLICAS),
    Fault("a new leader decides without a new list of the pods", "extender/watched.cc",
          "  reflector_.restart();\n", "", seeds=TWO_REPLICAS),
    Fault("a new leader touches only some pods", "extender/bind/start_sequence.cc",
          "  to_touch_.assign(", "  if (pods.size() > 1) pods.resize(pods.size() / 2);\n  to_touch_.assign(",
          seeds=TWO_REPLICAS),
    Fault("a touch that has failed counts", "extender/bind/pod_touch.cc",
          "  return !sent.empty() && has_changed(*read, sent);",
          "  return !sent.empty();", 4000, seeds=TWO_REPLICAS),
    Fault("a pod that cannot be changed stops a start", "extender/bind/start_sequence.cc",
          "  } else if (is_of_this_pod(touched.error(), pending.touches)) {",
          "  } else if (is_of_this_pod(touched.error(), pending.touches) && done()) {", seeds=REFUSED_OBJECTS),
    Fault("a pod that cannot be changed keeps no room", "extender/bind/start_sequence.cc",
          "  ledger_.reservations().keep_everywhere(pending.uid, pending.most, bindings_end_);\n", "", seeds=REFUSED_OBJECTS),
    Fault("a process that has lost the Lease goes on", "extender/bind/holder_lease.cc",
          "  if (!lost_.exchange(true)) on_lost_(sentence);", "  if (lost_.exchange(true)) on_lost_(sentence);",
          seeds=TWO_REPLICAS),
    Fault("a candidate does not wait until the Lease has expired", "extender/election/candidate.cc",
          "Duration LeaseCandidate::duration() const {", "Duration LeaseCandidate::duration() const {\n"
          "  if (observed_) return Duration(1'000);", seeds=TWO_REPLICAS),
    Fault("a candidate compares the time in the Lease", "extender/election/candidate.cc",
          "a.renew_time == b.renew_time", "a.renew_time >= b.renew_time",
          seeds=TWO_REPLICAS,
          more=(("extender/election/candidate.cc", "  lease_ = lease;\n",
                 "  const bool kept = same && lease.has_value();\n"
                 "  const std::string latest = kept ? lease_->renew_time : std::string();\n"
                 "  lease_ = lease;\n  if (kept) lease_->renew_time = latest;\n"),)),
    Fault("a leader does not renew the Lease", "extender/election/leader_election.cc",
          "  events_.on_taken();\n  wait(options_.retry, &LeaderElection::renew);", "  events_.on_taken();",
          seeds=TWO_REPLICAS),
    Fault("a leader that cannot renew the Lease goes on", "extender/election/leader_election.cc",
          "  if (since >= options_.renew_deadline) {", "  if (since >= 100 * options_.renew_deadline) {",
          seeds=TWO_REPLICAS),
    Fault("a leader whose work hangs renews the Lease", "extender/election/leader_election.cc",
          "  if (work_.is_missed()) return wait_for_work();\n", "", 10, seeds=TWO_REPLICAS),
    Fault("a leader renews the Lease of another one", "extender/election/leader_election.cc",
          "  if (read->holder != identity_) return lose(\"its holder is \" + in_quotes(read->holder));\n", "",
          seeds=TWO_REPLICAS),
    Fault("a shutdown does not give the Lease up", "extender/election/leader_election.cc",
          "  const bool held = role_ == Role::kLeader;", "  const bool held = false;", seeds=TWO_REPLICAS),
    Fault("a replica that kube-scheduler asks does not take the Lease", "extender/election/leader_election.cc",
          "  if (!options_.when_asked) return;", "  if (options_.when_asked) return;", seeds=TWO_REPLICAS),
    Fault("a new leader does not change the endpoint", "extender/election/leader_endpoints.cc",
          " && found.port == wanted.port;", ";", seeds=TWO_REPLICAS),
    Fault("a record is not synced", "plugin/containers/pre_start_handler.cc",
          "Durability::kMachine", "Durability::kProcess"),
    Fault("a container that restarts needs its record written", "plugin/state/records.cc",
          "  if (saved && *saved == json) return {};\n", "  if (saved && json.empty()) return {};\n"),
    Fault("the CDI spec is compared with what this process wrote", "plugin/injection/cdi_injector.cc",
          "    const auto found = read_file(path_, text.size());\n    if (found && *found == text) return false;\n",
          "    if (text == written_) return false;\n    written_ = text;\n",
          more=(("plugin/injection/cdi_injector.cc", "  Mutex mutex_;\n",
                 "  Mutex mutex_;\n  std::string written_;\n"),)),
    Fault("a device plugin goes on until its successor has ended", "plugin/state/incumbent.cc",
          "  return file_.is_open() && ::fstat",
          "  const UniqueFd latest(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));\n"
          "  if (!latest.is_open() || ::flock(latest.number(), LOCK_SH | LOCK_NB) != 0) return false;\n"
          "  return file_.is_open() && ::fstat"),
    Fault("a device plugin that was replaced stays when its successor ends", "plugin/state/incumbent.cc",
          "  if (!replaced()) return false;", "  if (!replaced() || !path_.empty()) return false;"),
    Fault("no hook asks for the MPS daemon of a container", "plugin/containers/container_edits.cc",
          "    if (by.mps_hook != nullptr) {", "    if (by.mps_hook != nullptr && mount.host_path.empty()) {"),
    Fault("the room on a card is not checked at the start of a container", "plugin/allocation/decide.cc",
          "if ((held.share + hold).fits_in(capacity)) return {};", "return {};"),
    Fault("a record ends with the pod at the API server", "plugin/containers/record_liveness.cc",
          "  return at_kubelet && !listed_at_kubelet(record) && !has_processes(uid);",
          "  return at_kubelet.has_value();"),
    Fault("a record ends while its pod has processes", "plugin/containers/record_liveness.cc",
          " && !has_processes(uid);", ";",
          more=(("plugin/containers/record_liveness.cc", "return !has_processes(uid);", "return true;"),)),
    Fault("a pod whose name was taken has ended", "plugin/containers/record_liveness.cc",
          "  if (!checkpointed) return listed->second.contains(record.devices);",
          "  if (!record.id.str().empty()) return false;\n"
          "  if (!checkpointed) return listed->second.contains(record.devices);",
          more=(("plugin/containers/record_liveness.cc", " && !has_processes(uid);", ";"),)),
    Fault("a container gets the cards of an earlier pod of its name", "plugin/containers/pre_start_handler.cc",
          "  if (!identity.uid.empty()) return dependencies_.pods.find(identity.uid);",
          "  if (identity.pod) return dependencies_.pods.find(*identity.pod);",
          more=(("plugin/allocation/decide.cc",
                 "if (!expected.empty() && expected != pod.uid())", "if (false)"),)),
    Fault("a pod counts with the cards of its edited annotation", "extender/ledger/claim.cc",
          "void keep_cards(const Claim& first, Claim& shown) {",
          "void keep_cards(const Claim& first, Claim& shown) {\n  if (!first.uid.empty()) return;"),
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
    # The compilations of other checkouts count.
    environment = {**os.environ, "CCACHE_BASEDIR": str(COPY), "CCACHE_NOHASHDIR": "1"}
    subprocess.run(["nice", "ninja", "-C", str(folder), "mgpu-simulate"], check=True, capture_output=True,
                   env=environment)


def run(folder, fault):
    program = folder / "test" / "simulation" / "mgpu-simulate"
    first, step = fault.seeds
    command = ["setarch", os.uname().machine, "-R", str(program), f"--histories={fault.histories}",
               f"--first-seed={first}", f"--step={step}", "--time=240h", "--shrink-runs=0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def wrong_text(fault, tree):
    """A sentence, or nothing if each text of the fault is once in its file."""
    for file, before, _ in fault.changes():
        if (tree / file).read_text().count(before) != 1:
            return f"{file} does not have its text once: {before!r}"
    return ""


def plant(fault):
    """Returns the texts of the files before the change."""
    texts = {}
    for file, before, after in fault.changes():
        path = COPY / file
        text = path.read_text()
        texts.setdefault(path, text)
        path.write_text(text.replace(before, after))
    return texts


def failed(fault, problem):
    print(f"FAILED {fault.name}: {problem}", flush=True)
    return False


def check(fault, folder):
    """Whether the simulation finds the fault within its number of histories."""
    if problem := wrong_text(fault, COPY):
        return failed(fault, problem)
    texts = plant(fault)
    try:
        build(folder)
        outcome = run(folder, fault)
    except subprocess.CalledProcessError as error:
        return failed(fault, f"it does not compile:\n{error.stdout.decode()[-3000:]}")
    finally:
        for path, text in texts.items():
            path.write_text(text)
    lines = outcome.stdout.strip().splitlines()
    found = outcome.returncode == 1 and len(lines) > 1
    print(f"{'ok    ' if found else 'FAILED'} {fault.name}: {' '.join(lines[:2])}", flush=True)
    return found


def check_texts():
    wrong = [(fault, problem) for fault in FAULTS if (problem := wrong_text(fault, ROOT))]
    for fault, problem in wrong:
        failed(fault, problem)
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--texts"]:
        return check_texts()
    chosen = [fault for fault in FAULTS if not sys.argv[1:] or fault.name in sys.argv[1:]]
    copy_tree()
    folder = COPY.parent / "build"
    subprocess.run(["cmake", "--preset", "release", "-S", str(COPY), "-B", str(folder)], check=True,
                   capture_output=True, cwd=COPY)
    passed = sum(check(fault, folder) for fault in chosen)
    print(f"{passed} passed, {len(chosen) - passed} failed")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
