"""Runs clients of PyPI on the fake driver, and compares its functions with NVIDIA's headers.

    bindings_test.py BUILD     with the targets fake_gpu_test, fake_gpu_machine, share_test and mgpu-share-page

bindings_client.py runs with NVIDIA's cuda-bindings of three majors, share_client.py with nvidia-ml-py (pynvml) also, and
numba_client.py with numba-cuda; the latter two with the libraries of plugin/share in the places of the machine's own. The
headers cuda.h and cudaTypedefs.h are in wheels of PyPI; the test program of plugin/share gets them, and
driver_versions.def is compared with them here. What is downloaded is kept in ~/.cache/mgpu. Without network, what is not
there yet is skipped. The last line is "N passed, N failed, N skipped"."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mgpu"
# Version 13 needs a module that finds libraries.
BINDINGS = (["cuda-bindings==11.8.7"], ["cuda-bindings==12.9.2"], ["cuda-bindings==13.5.0", "cuda-pathfinder==1.9.1"])
HEADERS = ("nvidia-cuda-runtime-cu11==11.8.89", "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-runtime==13.5.37")
# numba-cuda compiles nothing here, but looks for NVIDIA's runtime and compiler when it is imported.
NUMBA = ["numba-cuda==0.30.4", "numba==0.68.1", "llvmlite==0.50.0", "numpy==2.4.6", "packaging==26.4", "cuda-core==1.2.2",
         "cuda-bindings==13.5.0", "cuda-pathfinder==1.9.1", "nvidia-cuda-runtime==13.5.37", "nvidia-nvvm==13.5.37"]
NVML_BINDINGS = ("nvidia-ml-py==11.525.150", "nvidia-ml-py==13.615.71")
CARD = "GPU-6d677075-0000-4000-8000-000000000001"
SCENARIO = f"cards: [{{uuid: {CARD}}}]\n"
counts = {"passed": 0, "failed": 0, "skipped": 0}


def count(result, name, output=""):
    counts[result] += 1
    print(f"{name}: {result}{': ' if output else ''}{output.strip()[-2000:]}", flush=True)


def installed(packages):
    """The folder with the packages, or None without network."""
    folder = CACHE / packages[0].replace("==", "-")
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as new:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
                   "--root-user-action=ignore", "--target", new + "/packages", *packages]
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            return None
        try:
            os.rename(new + "/packages", folder)
        except OSError:
            pass  # another run was faster
    return folder


def run_on_machine(build, name, packages, command, libraries):
    """Runs a client with the packages on a machine of its own, in a folder that has the pages of a share."""
    folders = [installed(one) for one in packages]
    if None in folders:
        return count("skipped", name, "it cannot be downloaded")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        scenario, pages = pathlib.Path(scratch, "scenario.yaml"), pathlib.Path(scratch, "share", CARD)
        scenario.write_text(SCENARIO, encoding="utf-8")
        pages.mkdir(parents=True)
        subprocess.run([build / "test/fake-gpu/fake_gpu_machine", scenario, scratch + "/machine"], check=True)
        subprocess.run([build / "test/gpu/mgpu-share-page", "make", pages, CARD, "4096", "528"], check=True)
        environment = dict(os.environ, MGPU_FAKE_GPU=scratch + "/machine", LD_LIBRARY_PATH=str(libraries),
                           PYTHONPATH=":".join(map(str, folders)))
        done = subprocess.run([sys.executable, "-B", *command], env=environment, cwd=scratch, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return count("failed" if done.returncode else "passed", name, done.stdout)


def run_client(build, packages):
    run_on_machine(build, packages[0], [packages], [HERE / "bindings_client.py"], build / "test/fake-gpu")


def run_share(build, packages, nvml):
    name = f"a share with {packages[0]} and {nvml}"
    command = [HERE / "share_client.py", build / "test/fake-gpu/libnvidia-ml.so.1"]
    run_on_machine(build, name, [packages, [nvml]], command, build / "test/fake-gpu/share")


def run_numba(build):
    run_on_machine(build, f"a share with {NUMBA[0]}", [NUMBA], [HERE / "numba_client.py"], build / "test/fake-gpu/share")


def headers(name):
    """The files of this name in all wheels; None without network."""
    folders = [installed([package]) for package in HEADERS]
    if None in folders:
        return None
    return [next(folder.rglob(name)) for folder in folders]


def classify(build):
    found = headers("cuda.h")
    if found is None:
        return count("skipped", "functions of cuda.h", "the headers cannot be downloaded")
    environment = dict(os.environ, MGPU_TEST_CUDA_HEADERS=":".join(map(str, found)))
    done = subprocess.run([build / "test/share_test", "--gtest_brief=1", "--gtest_filter=DriverFunctions.*"], text=True,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return count("failed" if done.returncode else "passed", "functions of cuda.h",
                 done.stdout if done.returncode else "")


def versions():
    """Of each function, the numbers of its forms in cudaTypedefs.h are those in driver_versions.def."""
    found = headers("cudaTypedefs.h")
    if found is None:
        return count("skipped", "versions of functions", "the headers cannot be downloaded")
    declared = {}
    for path in found:
        text = path.read_text(encoding="utf-8", errors="replace")
        for name, version in re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(?:_pt[sd][sz])?\)", text):
            declared.setdefault(name, set()).add(int(version))
    lines = re.findall(r"DRIVER_VERSIONS\((\w+), ([\d, ]+)\)", (HERE / "driver/driver_versions.def").read_text("utf-8"))
    known = {name: {int(number) for number in numbers.split(", ")} for name, numbers in lines}
    # 7000 is the form for each default stream of a thread, which is not in the list.
    wrong = [f"{name} has {sorted(known.get(name, []))}, expected {sorted(numbers)}"
             for name, numbers in sorted(declared.items()) if known.get(name, set()) | {7000} != numbers | {7000}]
    return count("failed" if wrong else "passed", "versions of functions", "; ".join(wrong))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for packages in BINDINGS:
        run_client(build, packages)
    for packages in BINDINGS:
        for nvml in NVML_BINDINGS:
            run_share(build, packages, nvml)
    run_numba(build)
    classify(build)
    versions()
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
