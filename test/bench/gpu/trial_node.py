"""A node with one card that consists of stand-ins, and the results of a trial on it."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

CARD = "GPU-6d677075-0000-4000-8000-000000000001"
DRIVER = "580.95.05"
CONTEXT_MIB = 500
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Much longer than any test takes, for busy machines.
TIMEOUT_S = 240


class Node:
    """A node with one card: the device files, the libraries, and the results of NVML."""

    folder = pathlib.Path()
    stand_ins = pathlib.Path()

    def __init__(self, nvml="libnvidia-ml-R615.so.1"):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mgpu-node."))
        # Programs of other users in containers read it.
        self.path.chmod(0o755)
        self.root = self.path / "node"
        # The trial mounts the node's /proc there in containers.
        (self.path / "proc").mkdir()
        self.results = self.path / "results"
        self.libraries = self.root / LIBRARIES
        self.libraries.mkdir(parents=True)
        self.fault = ""
        self.make_machine()
        self.add_library("libcuda", Node.stand_ins / "libcuda.so.1")
        self.add_library("libnvidia-ml", Node.stand_ins / nvml)
        self.add_library("libnvidia-ptxjitcompiler", None)
        (self.root / "usr/bin").mkdir()
        shutil.copy(Node.stand_ins / "fake_nvidia_smi", self.root / "usr/bin/nvidia-smi")
        (self.root / "dev").mkdir()
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
            os.mknod(self.root / "dev" / name, 0o020666, os.makedev(1, 3))
        (self.root / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
        (self.root / "proc/devices").write_text("Character devices:\n195 nvidia\n510 nvidia-uvm\n")
        (self.root / "sys/fs/cgroup").mkdir(parents=True)
        (self.root / "sys/fs/cgroup/cgroup.controllers").write_text("dmem\n")
        self.set_nvml()

    def make_machine(self, reserved_mib=0):
        """The machine of test/gpu whose card the programs use."""
        scenario = self.path / "scenario.yaml"
        scenario.write_text(
            f"driver: {{release: {DRIVER}}}\n"
            f"cards: [{{uuid: {CARD}, reservedMiB: {reserved_mib}, idleMiB: 0, "
            f"contextMiB: {CONTEXT_MIB}, contextHiddenMiB: 0}}]\n"
        )
        subprocess.run([Node.stand_ins / "fake_gpu_machine", scenario, self.path / "machine"], check=True)

    def remove(self):
        shutil.rmtree(self.path)

    def add_library(self, name, file):
        versioned = self.libraries / f"{name}.so.{DRIVER}"
        if file is None:
            versioned.write_text("")
        else:
            shutil.copy(file, versioned)
        (self.libraries / f"{name}.so.1").symlink_to(versioned.name)

    def remove_library(self, name):
        for file in self.libraries.glob(f"{name}.so.*"):
            file.unlink()

    def set_nvml(self, card="", more=""):
        """Sets what NVML has otherwise; test/gpu/nvml/nvml.cc has the grammar."""
        new = self.path / "scenario.new"  # NVML reads it at each call
        new.write_text(f"card {CARD} action=0 {card}\nopens {self.root}/dev/nvidiactl\n{more}\n")
        new.replace(self.path / "scenario")

    def unload_uvm(self):
        (self.root / "dev/nvidia-uvm").unlink()
        (self.root / "proc/devices").write_text("Character devices:\n195 nvidia\n")

    def add_modprobe(self):
        (self.root / "usr/sbin").mkdir()
        shutil.copy(Node.stand_ins / "fake_modprobe", self.root / "usr/sbin/modprobe")

    @staticmethod
    def set_program(path, script):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def add_toolkit_spec(self, hook):
        """Adds a CDI spec like that of NVIDIA's toolkit, which has no links, and its hook, a script."""
        self.set_program(self.root / "usr/bin/hook", hook)
        versioned = [f"/{LIBRARIES}/{file.name}" for file in self.libraries.glob(f"*.{DRIVER}")]
        devices = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")]
        hook = {"hookName": "createRuntime", "path": "/usr/bin/hook", "args": ["hook", DRIVER]}
        edits = {
            "deviceNodes": [{"path": path} for path in devices],
            "mounts": [{"hostPath": path, "containerPath": path, "options": ["ro"]} for path in versioned],
            "hooks": [hook],
        }
        (self.root / "etc/cdi").mkdir(parents=True)
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [], "containerEdits": edits}
        (self.root / "etc/cdi/nvidia.json").write_text(json.dumps(spec))

    def behaves(self, fault):
        """Switches on a fault of the driver: test/gpu/driver/faults.h."""
        self.fault = fault

    def daemon_behaves(self, lines):
        """Sets the behaviour of MPS daemons; test/gpu/mps_control.cc has the grammar."""
        (self.path / "mps").write_text(lines + "\n")

    def log(self):
        file = self.path / "scenario.log"
        return file.read_text().split("\n") if file.exists() else []

    def modes(self):
        """The changes of the compute mode."""
        return [line for line in self.log() if line.startswith("set_mode")]

    def command(self, *flags, control="fake_mps_control"):
        return [
            str(Node.folder / "run.sh"),
            *("--node-root", str(self.root)),
            *("--mps-control", str(Node.stand_ins / control)),
            *("--nvidia-smi", str(Node.stand_ins / "fake_nvidia_smi")),
            *("--stand-ins", str(self.path)),
            *("--output", str(self.results)),
            *("--measure", "100ms"),
            *flags,
        ]

    def environment(self):
        return {
            **os.environ,
            "MGPU_FAKE_NVML": str(self.path / "scenario"),
            # Containers do not get it.
            "MGPU_NVML_OF_NODE": str(self.libraries / "libnvidia-ml.so.1"),
            "MGPU_FAKE_GPU": str(self.path / "machine"),
            "MGPU_FAKE_GPU_FAULT": self.fault,
            "MGPU_FAKE_MPS": str(self.path / "mps"),
        }

    def start(self, *flags, prefix=(), **how):
        """`prefix` is a command that starts the trial."""
        return subprocess.Popen(
            [*prefix, *self.command(*flags, **how)],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *flags, **how):
        process = self.start(*flags, **how)
        output, errors = process.communicate(timeout=TIMEOUT_S)
        return Run(process.returncode, output, errors, self.results / "results.json")

    def run_only(self, *checks, flags=(), **how):
        return self.run(*(word for check in checks for word in ("--only", check)), *flags, **how)

    def processes(self):
        """Commands of processes that were started with this node's files."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.path).encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes())
        return found


class Run:
    """The result of one trial."""

    def __init__(self, code, output, errors, results):
        self.code = code
        self.output = output
        self.errors = errors
        self.json = json.loads(results.read_text()) if results.exists() else None

    def check(self, name):
        return next(check for check in self.json["checks"] if check["name"] == name)

    def statuses(self):
        return {check["name"]: check["status"] for check in self.json["checks"]}

    def fact(self, check, name):
        return next(f["value"] for f in self.check(check)["facts"] if f["fact"] == name)

    def expectations(self, check):
        """Returns whether each expectation held, by its sentence."""
        return {e["expectation"]: e["held"] for e in self.check(check)["expectations"]}

    def broken_names(self, check):
        return [name for name, held in self.expectations(check).items() if not held]

    def broken(self, check):
        """Returns the details of the expectations that did not hold."""
        return [e["detail"] for e in self.check(check)["expectations"] if not e["held"]]
