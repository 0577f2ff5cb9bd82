"""Runs the cases of the conformance kit on the fake machine of test/gpu, against a library that limits the memory of
CUDA programs, and against none.

    kit.py FOLDER [--library FILE] [--preload] [--prepare COMMAND] [--env NAME=VALUE]... [--mps FILE] [--known NAMES]
           [--json FILE] [CASE...]

FOLDER has the fake machine and fake_gpu_kit (build/asan/test/fake-gpu). The library is found as libcuda.so.1, as where it
is mounted in its place, or with --preload beside the fake driver. It finds the fake driver by the path in
MGPU_KIT_DRIVER, or by the name libcuda-driver.so.1 in the folder of LD_LIBRARY_PATH.

Each case runs in a folder of its own. Before it, the shell runs COMMAND there, with MGPU_KIT_CARDS (UUIDs) and
MGPU_KIT_LIMIT_MIB, to set the limit of each card; --env adds variables for the case. With --mps its programs are
clients of MPS that may use 5 % of the multiprocessors, with FILE as the daemon (build/asan/test/fake_mps_control). What
counts is the memory that the cards themselves show in use. An attack must have more than the limit without a library,
or it shows nothing, and no more with it. An everyday use must see the same as without a library on cards of that size.
--known names attacks that are known to succeed; one of these that fails is a failure too, so that the list stays true.
The last line is "N passed, N failed, N skipped"."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_MIB = 2048
CARDS = [f"GPU-6d677075-0000-4000-8000-00000000000{i}" for i in (1, 2)]
TIMEOUT_S = 120


def cases(folder):
    """Of each name its kind, and what is done or seen."""
    out = subprocess.run([folder / "fake_gpu_kit", "list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: (kind, what) for name, kind, what in (line.split("\t") for line in out.splitlines())}


def on_cards(folder, machine):
    """MiB in use of each card."""
    out = subprocess.run([folder / "fake_gpu_machine", "--show", machine], stdout=subprocess.PIPE, text=True, check=True)
    found = re.findall(r": ([\d.]+) MiB free of ([\d.]+)", out.stdout)
    return [float(total) - float(free) for free, total in found]


def last_line(process):
    """Of a case, which then stays until it is killed; or why there is none."""
    text, end = b"", time.monotonic() + TIMEOUT_S
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            return "FAIL it hangs"
        piece = os.read(process.stdout.fileno(), 65536)
        text += piece
        lines = [line for line in text.decode(errors="replace").splitlines() if re.match("DONE|FAIL|SKIP", line)]
        if lines and text.endswith(b"\n"):
            return lines[-1]
        if not piece:
            return f"ENDED {process.wait()} {text.decode(errors='replace').strip()[-200:]}"


def run_case(options, name, library, card_mib):
    """What the case says last, and the MiB in use then."""
    folder = options.folder
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch, contextlib.ExitStack() as at_end:
        scratch = pathlib.Path(scratch)
        os.chmod(scratch, 0o777)
        cards = ", ".join(f"{{uuid: {card}, memoryMiB: {card_mib}, reservedMiB: 0, idleMiB: 0}}" for card in CARDS)
        (scratch / "scenario.yaml").write_text(f"cards: [{cards}]\n", encoding="utf-8")
        subprocess.run([folder / "fake_gpu_machine", scratch / "scenario.yaml", scratch / "machine"], check=True)
        os.chmod(scratch / "machine", 0o666)
        driver, libraries = folder / "libcuda.so.1", scratch / "libraries"
        libraries.mkdir()
        in_place = driver if library is None or options.preload else library
        for link, target in (("libcuda.so.1", in_place), ("libcuda.so", in_place), ("libcuda-driver.so.1", driver)):
            (libraries / link).symlink_to(target)
        environment = dict(os.environ, MGPU_FAKE_GPU=str(scratch / "machine"), LD_LIBRARY_PATH=str(libraries),
                           MGPU_KIT_LIBCUDA=str(libraries / "libcuda.so.1"), MGPU_KIT_DRIVER=str(driver),
                           MGPU_KIT_LIMIT_MIB=str(LIMIT_MIB), MGPU_KIT_CARDS=" ".join(CARDS))
        if options.mps:
            daemon = start_mps(options.mps, scratch / "mps", environment)
            at_end.callback(daemon.wait)
            at_end.callback(daemon.kill)
        if library is not None:
            environment.update(one.split("=", 1) for one in options.env)
            if options.prepare:
                subprocess.run(options.prepare, shell=True, cwd=scratch, env=environment, check=True)
            if options.preload:
                environment["LD_PRELOAD"] = str(library)
        process = subprocess.Popen([folder / "fake_gpu_kit", name], cwd=scratch, env=environment, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = last_line(process)
        used = on_cards(folder, scratch / "machine")
        end_all(process, environment["MGPU_FAKE_GPU"])
        return said, max(used)


def start_mps(control, folder, environment):
    """The daemon, which serves; what its clients need is added to the environment."""
    folder.mkdir()
    environment.update(CUDA_MPS_PIPE_DIRECTORY=str(folder), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="5")
    daemon = subprocess.Popen([control, "-f"], env=dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=str(folder)))
    while daemon.poll() is None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            if client.connect_ex(str(folder / "control")) == 0:
                return daemon
        time.sleep(0.001)
    sys.exit(f"kit.py: {control} has ended with {daemon.returncode}")
    sys.exit(f"kit.py: --mps: {control} ended with status {daemon.returncode}")


def end_all(process, machine):
    """Ends the case and all that it has started, also those in other groups: they use its machine."""
    process.stdout.close()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and machine in (entry / "maps").read_text(encoding="utf-8"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def judge_attack(options, name):
    """The result, and a row for each of both runs."""
    without, free_use = run_case(options, name, None, 65536)
    if without.startswith("SKIP"):
        return "skipped", without, free_use, None
    if free_use <= LIMIT_MIB or without.startswith("FAIL"):
        return "failed", f"without a library the attack does not work: {without}", free_use, None
    if options.library is None:
        return "passed", without, free_use, None
    said, used = run_case(options, name, options.library, 65536)
    if used > LIMIT_MIB:
        return "known" if name in options.known else "failed", said, free_use, used
    if name in options.known:
        return "failed", f"it does not succeed any more: {said}", free_use, used
    # A program that has crashed has nothing, but none may hang.
    return "passed" if said.startswith(("DONE", "ENDED")) else "failed", said, free_use, used


def judge_everyday(options, name):
    without, free_use = run_case(options, name, None, LIMIT_MIB)
    if not without.startswith("DONE"):
        return "failed", f"without a library, on cards of this size: {without}", free_use, None
    if options.library is None:
        return "passed", without, free_use, None
    said, used = run_case(options, name, options.library, 65536)
    return "passed" if said.startswith("DONE") and used <= LIMIT_MIB else "failed", said, free_use, used


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--preload", action="store_true")
    parser.add_argument("--prepare")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--mps", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--known", type=lambda text: text.split(","), default=[])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    options.folder = options.folder.resolve()
    for program in ("fake_gpu_kit", "fake_gpu_machine", "libcuda.so.1"):
        if not (options.folder / program).is_file():
            parser.error(f"FOLDER: {options.folder} has no {program}; build the target fake_gpu_kit")
    if options.library is not None:
        options.library = options.library.resolve()
        if not options.library.is_file():
            parser.error(f"--library: there is no file {options.library}")
    if options.mps is not None and not os.access(options.mps, os.X_OK):
        parser.error(f"--mps: there is no program {options.mps}")
    for one in options.env:
        if "=" not in one:
            parser.error(f"--env: must be NAME=VALUE, found {one!r}")
    return options


def main():
    options = arguments()
    known_cases, counts, rows = cases(options.folder), dict.fromkeys(("passed", "failed", "known", "skipped"), 0), []
    unknown = sorted({*options.cases, *options.known} - known_cases.keys())
    if unknown:
        sys.exit(f"kit.py: no case is called {', '.join(unknown)}; fake_gpu_kit list has all")
    print(f"MiB on the card with a limit of {LIMIT_MIB}")
    print(f"{'case':36} {'kind':9} {'none':>9} {'library':>9}  result", flush=True)
    for name, (kind, what) in known_cases.items():
        if options.cases and name not in options.cases:
            continue
        judge = judge_attack if kind == "attack" else judge_everyday
        begun = time.monotonic()
        result, said, without, used = judge(options, name)
        counts[result] += 1
        rows.append({"case": name, "kind": kind, "what": what, "result": result, "said": said, "limitMiB": LIMIT_MIB,
                     "withoutMiB": without, "withMiB": used, "seconds": round(time.monotonic() - begun, 3)})
        shown = "" if used is None else f"{used:.1f}"
        text = "" if result == "passed" else f": {what}: {said}"
        print(f"{name:36} {kind:9} {without:9.1f} {shown:>9}  {result}{text}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"library": str(options.library or ""), "cases": rows}, indent=1) + "\n", "utf-8")
    print(f"{counts['known']} attacks are known to succeed")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
