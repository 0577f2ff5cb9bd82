"""Runs clients of PyPI on the fake driver, and compares its functions with NVIDIA's headers.

    bindings_test.py BUILD     with the targets fake_gpu_machine, fake_gpu_cuda, share_test and mgpu-share-page

bindings_client.py runs with NVIDIA's cuda-bindings of three majors, and nvidia-ml-py (pynvml) shows a share on the
stand-in of NVML in plugin/share. The headers cuda.h and cudaTypedefs.h are in wheels
of PyPI; the test program of plugin/share gets them, and driver_versions.def is compared with them here. What is
downloaded is kept in ~/.cache/mgpu. Without network, what is not there yet is skipped. The last line is "N passed, N
failed, N skipped"."""

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
NVML_BINDINGS = ("nvidia-ml-py==11.525.150", "nvidia-ml-py==13.615.71")
NVML_CLIENT = """import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
first, second = pynvml.nvmlDeviceGetMemoryInfo(card), pynvml.nvmlDeviceGetMemoryInfo(card, pynvml.nvmlMemory_v2)
seen = [x >> 20 for x in (first.total, first.used, first.free, second.total, second.reserved, second.used, second.free)]
assert seen == [1024, 0, 1024, 1024, 0, 0, 1024], seen
assert pynvml.nvmlDeviceGetPowerUsage(card) == 650000, "a function of the driver that is not replaced"
"""
SCENARIO = "cards: [{uuid: GPU-6d677075-0000-4000-8000-000000000001}]\n"
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


def run_client(build, packages):
    folder = installed(packages)
    if folder is None:
        return count("skipped", packages[0], "it cannot be downloaded")
    with tempfile.TemporaryDirectory() as scratch:
        scenario, machine = pathlib.Path(scratch, "scenario.yaml"), pathlib.Path(scratch, "machine")
        scenario.write_text(SCENARIO, encoding="utf-8")
        subprocess.run([build / "test/fake-gpu/fake_gpu_machine", scenario, machine], check=True)
        environment = dict(os.environ, MGPU_FAKE_GPU=str(machine), LD_LIBRARY_PATH=str(build / "test/fake-gpu"),
                           PYTHONPATH=str(folder))
        done = subprocess.run([sys.executable, "-B", HERE / "bindings_client.py"], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return count("failed" if done.returncode else "passed", packages[0], done.stdout)


def run_nvml(build, package):
    folder = installed([package])
    if folder is None:
        return count("skipped", package, "it cannot be downloaded")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        card = "GPU-6d677075-0000-4000-8000-000000000001"
        pages = pathlib.Path(scratch, "share", card)
        pages.mkdir(parents=True)
        subprocess.run([build / "plugin/mgpu-share-page", "make", pages, card, "1024", "0"], check=True)
        pathlib.Path(scratch, "nvml").write_text(f"card {card} used=5000\n", encoding="utf-8")
        environment = dict(os.environ, MGPU_FAKE_NVML=scratch + "/nvml", PYTHONPATH=str(folder),
                           LD_LIBRARY_PATH=str(build / "test/share-libraries"))
        done = subprocess.run([sys.executable, "-B", "-c", NVML_CLIENT], env=environment, cwd=scratch, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return count("failed" if done.returncode else "passed", package, done.stdout)


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
    for package in NVML_BINDINGS:
        run_nvml(build, package)
    classify(build)
    versions()
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
