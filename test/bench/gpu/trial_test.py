#!/usr/bin/env python3
"""Tests the whole trial of bench/gpu with stand-ins for a GPU and its driver.

Usage: trial_test.py FOLDER STAND_INS

FOLDER is the folder of bench/gpu/build.sh. STAND_INS has the programs and libraries of
test/bench/gpu and test/plugin/cards. Most tests need root, like the trial. The last line of the
output is "N passed, N failed, N skipped".
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path()
STAND_INS = pathlib.Path()
CARD = "GPU-6d677075-0000-4000-8000-000000000001"
DRIVER = "580.95.05"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Much longer than any test takes, for busy machines.
TIMEOUT_S = 240


def scratch_folders():
    return set(pathlib.Path("/tmp").glob("mgpu-gpu.*"))


class Node:
    """A node with one card: the device files, the libraries, and the results of NVML."""

    def __init__(self, nvml="fake_nvml_r615.so"):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mgpu-node."))
        self.root = self.path / "node"
        self.results = self.path / "results"
        self.libraries = self.root / LIBRARIES
        self.libraries.mkdir(parents=True)
        self.add_library("libcuda", STAND_INS / "libcuda.so.1")
        self.add_library("libnvidia-ml", STAND_INS / nvml)
        self.add_library("libnvidia-ptxjitcompiler", None)
        (self.root / "dev").mkdir()
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
            os.mknod(self.root / "dev" / name, 0o020666, os.makedev(1, 3))
        (self.root / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
        (self.root / "proc/devices").write_text("Character devices:\n195 nvidia\n510 nvidia-uvm\n")
        (self.root / "sys/fs/cgroup").mkdir(parents=True)
        (self.root / "sys/fs/cgroup/cgroup.controllers").write_text("dmem\n")
        self.cuda = self.path / "cuda"
        self.cuda.mkdir()
        self.set_nvml()

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
        """Sets the results of NVML; fake_nvml.cc has the grammar."""
        (self.path / "scenario").write_text(
            f"driver {DRIVER}\nnvml 13.{DRIVER}\n"
            f"card {CARD} minor=0 memory=143771 action=0 {card}\n{more}\n"
        )

    def behaves(self, lines):
        """Sets the behaviour of the driver; fake_cuda.cc has the grammar."""
        (self.cuda / "behaviour").write_text(lines + "\n")

    def log(self):
        file = self.path / "scenario.log"
        return file.read_text().split("\n") if file.exists() else []

    def command(self, *flags, control="fake_mps_control"):
        return [
            str(FOLDER / "run.sh"),
            *("--nvml", str(self.libraries / "libnvidia-ml.so.1")),
            *("--node-root", str(self.root)),
            *("--mps-control", str(STAND_INS / control)),
            *("--nvidia-smi", str(STAND_INS / "fake_nvidia_smi")),
            *("--output", str(self.results)),
            *("--measure", "100ms"),
            *flags,
        ]

    def environment(self):
        return {
            **os.environ,
            "MGPU_FAKE_NVML": str(self.path / "scenario"),
            "MGPU_FAKE_NVML_LIBRARY": str(self.libraries / "libnvidia-ml.so.1"),
            "MGPU_FAKE_CUDA": str(self.cuda),
        }

    def start(self, *flags, **how):
        return subprocess.Popen(
            self.command(*flags, **how),
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

    def broken(self, check):
        """Returns the details of the expectations that did not hold."""
        return [e["detail"] for e in self.check(check)["expectations"] if not e["held"]]


def listed_checks():
    out = subprocess.run([FOLDER / "bin/mgpu-gpu-trial", "--list"], capture_output=True, text=True)
    return [line.split()[0] for line in out.stdout.splitlines()]


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class TrialTest(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.remove)

    def wait_for_a_program(self, process):
        """Waits until a test program runs."""
        end = time.monotonic() + TIMEOUT_S
        while not any(b"mgpu-cuda-program" in command for command in self.node.processes()):
            self.assertIsNone(process.poll(), "the trial ended")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def expect(self, run, **statuses):
        for name, status in statuses.items():
            name = name.replace("_", "-")
            self.assertEqual(run.check(name)["status"], status, run.output + run.errors)


class WholeTrialTest(TrialTest):
    """One run of all checks, whose results all these tests use."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole_node = Node()
        before = scratch_folders()
        cls.whole = cls.whole_node.run()
        cls.left_folders = scratch_folders() - before

    @classmethod
    def tearDownClass(cls):
        cls.whole_node.remove()

    def test_passes_with_the_expected_driver(self):
        statuses = self.whole.statuses()
        # This check measures, and its results are wrong on a busy machine.
        self.assertIn(statuses.pop("mps-shares-alone"), ("passed", "FAILED"))
        self.assertEqual(set(statuses.values()), {"passed"}, self.whole.output)
        self.assertEqual(self.whole.errors, "")

    def test_makes_every_check_that_it_lists_once(self):
        self.assertEqual(list(self.whole.statuses()), [*listed_checks(), "settings"])
        self.assertGreaterEqual(len(listed_checks()), 22)

    def test_names_the_card_and_the_driver(self):
        machine = self.whole.json["machine"]
        self.assertEqual(machine["card"], CARD)
        self.assertEqual(machine["memory"], 143771)
        self.assertIn(f"driver {DRIVER}", machine["driver"])

    def test_prints_every_check_and_every_fact(self):
        for check in self.whole.json["checks"]:
            self.assertIn(check["name"], self.whole.output)
            for fact in check["facts"]:
                self.assertIn(fact["fact"], self.whole.output)

    def test_finds_how_much_of_each_limit_can_be_allocated(self):
        # The stand-in takes 30 MiB for the context of a client.
        for limit in (1024, 8000, 40000):
            name = f"largest allocation at {limit} MiB"
            self.assertEqual(self.whole.fact("mps-memory", name), limit - 30)
            name = f"error of the smallest allocation that failed at {limit} MiB"
            self.assertEqual(self.whole.fact("mps-memory", name), "CUDA_ERROR_OUT_OF_MEMORY")

    def test_finds_the_context_of_a_program_without_mps(self):
        self.assertEqual(self.whole.fact("memory", "used by one context"), 500)

    def test_measures_each_share_alone_and_beside_another(self):
        for percent in (10, 25, 30, 50, 75, 80):
            alone = self.whole.fact("mps-shares-alone", f"throughput of {percent} % alone")
            self.assertGreater(alone, 0)
            name = f"throughput of {percent} % beside {100 - percent} %"
            self.assertEqual(len(self.whole.fact("mps-shares-together", name)), 2)

    def test_finds_that_a_limit_of_the_driver_counts_for_a_cgroup(self):
        # The stand-in takes 500 MiB for a context.
        name = "largest allocation with the limit"
        self.assertEqual(self.whole.fact("driver-limits", name), 2048 - 500)
        refusal = self.whole.fact("driver-limits", "error of the second program")
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", refusal)

    def test_finds_that_a_limit_counts_for_each_process(self):
        self.assertEqual(
            self.whole.fact("mps-two-processes", "the limit counts for"), "each process"
        )

    def test_finds_that_a_program_can_leave_mps(self):
        fact = self.whole.fact("mps-bypass", "without CUDA_MPS_PIPE_DIRECTORY")
        self.assertEqual(fact, "allocates beyond its limit, outside of MPS")
        self.assertIn("OUT_OF_MEMORY", self.whole.fact("mps-bypass", "all variables set"))

    def test_finds_that_a_container_can_end_the_daemon(self):
        name = "user 0 of a container: the daemon after quit"
        self.assertEqual(self.whole.fact("mps-control", name), "has ended")

    def test_kills_as_many_clients_as_asked(self):
        name = "clients killed with work in flight"
        self.assertEqual(self.whole.fact("mps-kill-clients", name), 50)

    def test_finds_how_many_clients_there_may_be(self):
        self.assertEqual(self.whole.fact("mps-many-clients", "clients at once"), 48)
        refusal = self.whole.fact("mps-many-clients", "error of the next client")
        self.assertIn("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", refusal)

    def test_leaves_no_process_and_no_folder(self):
        self.assertEqual(self.whole_node.processes(), [])
        self.assertEqual(self.left_folders, set())

    def test_changes_no_setting(self):
        self.assertNotIn("set_mode", "".join(self.whole_node.log()))


class FaultTest(TrialTest):
    """Each fault of a driver or node that the trial must find."""

    def test_a_field_that_nvidia_smi_has_otherwise(self):
        self.node.set_nvml(more="smi minor_number 7")
        run = self.node.run_only("nvml-fields")
        self.expect(run, nvml_fields="FAILED")
        self.assertIn('nvidia-smi reports "7", the device plugin "0"', run.broken("nvml-fields"))
        self.assertEqual(run.code, 1)

    def test_process_lists_with_entries_of_another_size(self):
        node = Node(nvml="fake_nvml_r535.so")
        self.addCleanup(node.remove)
        run = node.run_only("process-lists")
        self.expect(run, process_lists="FAILED")
        self.assertIn("this driver writes 32 bytes an entry", run.broken("process-lists"))

    def test_memory_that_is_reserved_is_not_announced(self):
        self.node.set_nvml("reserved=600")
        run = self.node.run_only("memory")
        self.expect(run, memory="passed")

    def test_a_device_file_that_appears_with_the_first_cuda_program(self):
        (self.node.root / "dev/nvidia-uvm").unlink()
        run = self.node.run_only("device-files")
        self.expect(run, device_files="FAILED")

    def test_a_driver_that_does_not_hold_the_limit_of_a_cgroup(self):
        self.node.behaves("no-limit")
        run = self.node.run_only("driver-limits")
        self.expect(run, driver_limits="FAILED")

    def test_a_driver_without_limits_of_cgroups(self):
        node = Node(nvml="fake_nvml.so")
        self.addCleanup(node.remove)
        run = node.run_only("driver-limits")
        self.expect(run, driver_limits="skipped")
        self.assertIn("has no nvmlDeviceSetMemoryLimits_v1", run.output)

    def test_a_driver_whose_libraries_we_do_not_find(self):
        self.node.remove_library("libcuda")
        run = self.node.run_only("driver-libraries", "container-root", "container-user")
        self.expect(
            run, driver_libraries="FAILED", container_root="FAILED", container_user="FAILED"
        )
        self.assertIn("libcuda.so.1: cannot open shared object", run.broken("container-root")[0])

    def test_a_card_that_computes_wrongly(self):
        self.node.behaves("wrong-sum")
        run = self.node.run_only("mps-start")
        self.expect(run, mps_start="FAILED")

    def test_a_limit_that_does_not_hold(self):
        self.node.behaves("no-limit")
        run = self.node.run_only("mps-memory")
        self.expect(run, mps_memory="FAILED")
        self.assertIn("MiB were allocated", run.broken("mps-memory")[0])

    def test_a_share_that_does_not_hold(self):
        self.node.behaves("no-share")
        run = self.node.run_only("mps-shares-alone")
        self.expect(run, mps_shares_alone="FAILED")

    def test_an_mps_that_is_not_installed(self):
        run = self.node.run_only("mps-start", "mps-memory", control="absent")
        self.expect(run, mps_start="skipped", mps_memory="skipped")
        self.assertIn("is not on this machine", run.check("mps-start")["reason"])
        self.assertEqual(run.code, 0)

    def test_an_mps_that_does_not_start(self):
        run = self.node.run_only("mps-start", control="fake_nvidia_smi")
        self.expect(run, mps_start="ERROR")
        self.assertIn("its control daemon ended at once", run.check("mps-start")["reason"])

    def test_a_client_that_runs_outside_of_mps(self):
        self.node.behaves("no-mps")
        run = self.node.run_only("mps-start", "mps-many-clients", "mps-shares-alone")
        self.expect(
            run, mps_start="FAILED", mps_many_clients="FAILED", mps_shares_alone="ERROR"
        )
        self.assertIn("it ran outside of MPS, without a limit", run.broken("mps-start"))

    def test_a_program_that_ends_by_a_signal(self):
        self.node.behaves("crash cuModuleLoadData")
        run = self.node.run_only("device-files")
        self.expect(run, device_files="ERROR")
        self.assertIn("signal 11", run.check("device-files")["reason"])

    def test_what_exclusive_mode_does_and_puts_it_back(self):
        run = self.node.run_only("mps-bypass", flags=["--exclusive"])
        self.expect(run, mps_bypass="passed", settings="passed")
        changes = [line for line in self.node.log() if line.startswith("set_mode")]
        self.assertEqual(changes, ["set_mode 3", "set_mode 0"])


class HowATrialEnds(TrialTest):
    def test_reports_in_one_sentence_that_there_is_no_gpu(self):
        run = self.node.run("--nvml", "/nonexistent/libnvidia-ml.so.1")
        self.assertEqual(run.code, 3)
        self.assertEqual(run.output, "")
        self.assertEqual(run.errors.count("\n"), 1)
        self.assertIn("no GPU can be tried on this machine: no NVML on this node", run.errors)
        self.assertIsNone(run.json)

    def test_reports_in_one_sentence_that_nvml_hangs(self):
        self.node.set_nvml(more="hang nvmlInit_v2")
        run = self.node.run("--check-limit", "1s")
        self.assertEqual(run.code, 3)
        self.assertIn("no answer within 1 s", run.errors)

    def test_reports_in_one_sentence_that_a_card_is_unhealthy(self):
        self.node.set_nvml("mig=1")
        run = self.node.run()
        self.assertEqual(run.code, 3)
        self.assertIn("is not healthy: MIG", run.errors)

    def test_a_check_that_hangs_stops_no_other(self):
        self.node.behaves("hang cuDriverGetVersion")
        run = self.node.run_only("nvml-fields", "mps-start", "symbols", flags=["--check-limit", "10s"])
        self.expect(run, nvml_fields="passed", mps_start="TIMED OUT", symbols="TIMED OUT")
        self.assertEqual(run.code, 1)
        self.assertEqual(self.node.processes(), [])
        # The findings before it hung are kept.
        self.assertGreaterEqual(run.fact("mps-start", "time until the daemon answered"), 0)

    def test_a_driver_that_hangs_in_nvml_stops_no_other(self):
        self.node.set_nvml(more="hang nvmlDeviceGetComputeRunningProcesses_v3")
        run = self.node.run_only("process-lists", "symbols", flags=["--check-limit", "10s"])
        self.expect(run, process_lists="TIMED OUT", symbols="passed")

    def test_a_call_that_the_driver_refuses_is_named(self):
        self.node.behaves("fail cuDevicePrimaryCtxRetain 999")
        run = self.node.run_only("device-files")
        self.expect(run, device_files="ERROR")
        self.assertIn("cuDevicePrimaryCtxRetain: CUDA_ERROR_UNKNOWN", run.output)

    def test_checks_that_no_time_is_left_for_are_named(self):
        run = self.node.run_only("symbols", flags=["--time-limit", "1s"])
        self.expect(run, symbols="TIMED OUT")
        self.assertEqual(run.check("symbols")["reason"], "no time was left for it")
        self.assertEqual(run.code, 1)

    def test_an_interrupted_trial_leaves_nothing_behind(self):
        self.node.behaves("hang cuLaunchKernel")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.node.start("--only", "mps-kill-clients")
            self.wait_for_a_program(process)
            process.send_signal(number)
            process.communicate(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, 130)
            self.assertEqual(self.node.processes(), [])
            results = json.loads((self.node.results / "results.json").read_text())
            self.assertTrue(results["trial"]["interrupted"])

    def test_settings_are_put_back_after_an_interrupted_check(self):
        self.node.set_nvml("mode=0")
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-bypass", "--exclusive")
        self.wait_for_a_program(process)
        (self.node.path / "scenario.mode").write_text(f"{CARD} 3\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual([line for line in self.node.log() if "set_mode" in line], ["set_mode 0"])


    def test_a_second_interrupt_does_not_keep_settings_from_being_put_back(self):
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-bypass", "--exclusive")
        self.wait_for_a_program(process)
        (self.node.path / "scenario.mode").write_text(f"{CARD} 3\n")
        self.node.set_nvml(more="hang nvmlDeviceSetComputeMode")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        self.node.set_nvml()
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130)
        self.assertEqual([line for line in self.node.log() if "set_mode" in line], ["set_mode 0"])

    def test_settings_of_a_card_that_became_unhealthy_are_put_back(self):
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-bypass", "--exclusive")
        self.wait_for_a_program(process)
        (self.node.path / "scenario.mode").write_text(f"{CARD} 3\n")
        self.node.set_nvml("remap_failed=1")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual([line for line in self.node.log() if "set_mode" in line], ["set_mode 0"])

    def test_a_trial_that_is_killed_leaves_no_process(self):
        self.node.behaves("hang cuLaunchKernel")
        process = self.node.start("--only", "mps-kill-clients")
        self.wait_for_a_program(process)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        end = time.monotonic() + TIMEOUT_S
        while self.node.processes():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_second_trial_is_refused(self):
        self.node.behaves("hang cuInit")
        process = self.node.start("--only", "device-files")
        self.wait_for_a_program(process)
        second = subprocess.run([FOLDER / "run.sh"], capture_output=True, text=True)
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(second.returncode, 2)
        self.assertIn("another trial runs on this machine", second.stderr)

    def shell(self, script):
        """Runs a shell script in which "$@" is a trial of one check."""
        command = self.node.command("--only", "symbols")
        return subprocess.run(
            ["bash", "-c", script, "bash", *command],
            env=self.node.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def test_processes_that_it_did_not_start_go_on(self):
        run = self.shell('sleep 1000 >/dev/null 2>&1 & echo $!; exec "$@"')
        other = int(run.stdout.split()[0])
        os.kill(other, signal.SIGKILL)  # fails if there is no such process
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_closed_standard_descriptors_change_nothing(self):
        run = self.shell('"$@" <&- >&- 2>&-')
        self.assertEqual(run.returncode, 0)
        results = json.loads((self.node.results / "results.json").read_text())
        self.assertEqual(results["machine"]["card"], CARD)
        self.assertGreater(len(results["checks"][0]["facts"]), 0)

    def test_a_reader_that_stops_changes_nothing(self):
        run = self.shell('"$@" | head -n 1; exit ${PIPESTATUS[0]}')
        self.assertEqual(run.returncode, 0, run.stderr)


class TheFolder(unittest.TestCase):
    def test_refuses_what_it_does_not_know_in_one_sentence(self):
        cases = {
            ("--only", "everything"): '"everything" is no check',
            ("--measure", "fast"): "--measure",
            ("--kills", "0"): "--kills",
            ("--unknown",): "--unknown",
        }
        for flags, sentence in cases.items():
            with self.subTest(flags=flags):
                command = [FOLDER / "bin/mgpu-gpu-trial", "--folder", FOLDER, *flags]
                run = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(run.returncode, 2)
                self.assertIn(sentence, run.stderr)
                self.assertEqual(run.stderr.count("\n"), 1)

    def test_the_repository_s_run_sh_needs_a_folder(self):
        script = pathlib.Path(__file__).parents[3] / "bench/gpu/run.sh"
        for words in ([], ["/nonexistent"], ["--list"]):
            run = subprocess.run(["bash", script, *words], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2)
            self.assertIn("expected the", run.stderr)

    def test_needs_root(self):
        command = [FOLDER / "run.sh"]
        as_nobody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        run = subprocess.run(command, capture_output=True, text=True, cwd="/", **as_nobody)
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr, "mgpu-gpu-trial: not root; MPS daemons and containers need it\n")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_reports_files_that_cannot_be_written(self):
        for output in ("/proc/nothing", "/dev/null"):
            run = subprocess.run(
                [FOLDER / "run.sh", "--output", output], capture_output=True, text=True
            )
            self.assertEqual(run.returncode, 2)
            self.assertIn(f'"{output}"', run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_build_sh_removes_nothing_that_it_has_not_made(self):
        script = pathlib.Path(__file__).parents[3] / "bench/gpu/build.sh"
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder, "kept")
            kept.write_text("")
            for words in ([folder], ["a", "b"], ["--help"]):
                run = subprocess.run(["bash", script, *words], capture_output=True, text=True)
                self.assertEqual(run.returncode, 1)
                self.assertEqual(run.stderr.count("\n"), 1)
            self.assertTrue(kept.exists())

    def test_has_at_most_60_mib(self):
        size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
        self.assertLessEqual(size, 60 << 20)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_needs_nothing_of_a_machine_but_its_c_library(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copytree(FOLDER / "image", root, dirs_exist_ok=True)
            shutil.copytree(FOLDER, root + "/trial")
            os.mkdir(root + "/proc")
            script = (
                f"mount -t proc proc {root}/proc && "
                f"exec chroot {root} /trial/bin/mgpu-gpu-trial --list"
            )
            run = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(b"nvml-fields", run.stdout)


def main():
    global FOLDER, STAND_INS
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    FOLDER, STAND_INS = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
