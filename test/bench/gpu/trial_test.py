#!/usr/bin/env python3
"""Tests the whole trial of bench/gpu with stand-ins for a GPU and its driver.

Usage: trial_test.py FOLDER STAND_INS

FOLDER is the folder of bench/gpu/build.sh. STAND_INS has the programs and libraries of
test/bench/gpu, test/gpu and test/plugin/cards. Most tests need root, like the trial. The last line of the
output is "N passed, N failed, N skipped".
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from trial_node import CARD, CONTEXT_MIB, DRIVER, LIBRARIES, TIMEOUT_S, Node

FOLDER = pathlib.Path()


def scratch_folders():
    return set(pathlib.Path("/tmp").glob("mgpu-gpu.*"))


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
        self.assertEqual(statuses.pop("mps-exclusive"), "skipped")
        self.assertEqual(set(statuses.values()), {"passed"}, self.whole.output)
        self.assertEqual(self.whole.errors, "")

    def test_makes_every_check_that_it_lists_once(self):
        self.assertEqual(list(self.whole.statuses()), [*listed_checks(), "settings"])
        self.assertGreaterEqual(len(listed_checks()), 24)

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
        # The context of a client counts.
        for limit in (1024, 8000, 40000):
            name = f"largest allocation at {limit} MiB"
            self.assertEqual(self.whole.fact("mps-memory", name), limit - CONTEXT_MIB)
            name = f"error of the smallest allocation that failed at {limit} MiB"
            self.assertEqual(self.whole.fact("mps-memory", name), "CUDA_ERROR_OUT_OF_MEMORY")

    def test_finds_the_context_of_a_program_without_mps(self):
        self.assertEqual(self.whole.fact("memory", "used by one context"), CONTEXT_MIB)

    def test_measures_each_share(self):
        for percent in (10, 25, 30, 50, 75, 80):
            alone = self.whole.fact("mps-shares-alone", f"throughput of {percent} % alone")
            self.assertGreater(alone, 0)

    def test_finds_the_processes_of_containers_on_the_node(self):
        name = "the program of a container has its process ID of the node"
        self.assertIn(name, self.whole.expectations("process-lists"))
        process = self.whole.fact("mps-context", "process of the container")
        self.assertIn(
            process, self.whole.fact("mps-context", "processes as the device plugin lists them")
        )

    def test_finds_that_a_limit_of_the_driver_counts_for_a_cgroup(self):
        name = "largest allocation with the limit"
        self.assertEqual(self.whole.fact("driver-limits", name), 2048 - CONTEXT_MIB)
        refusal = self.whole.fact("driver-limits", "error of the second program")
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", refusal)

    def test_finds_that_a_limit_counts_for_each_process(self):
        self.assertEqual(
            self.whole.fact("mps-two-processes", "the limit counts for"), "each process"
        )

    def test_tries_each_kind_of_edits(self):
        self.assertEqual(len(self.whole.expectations("container")), 5)
        listed = self.whole.fact("container", "nvidia-smi -L in a container")
        self.assertIn(f"UUID: {CARD}", listed)

    def test_tries_a_pipe_directory_that_is_read_write(self):
        expectations = self.whole.expectations("mps-container")
        for user in (0, 65534):
            for pipe in ("read-only", "read-write"):
                self.assertIn(f"the limit holds as user {user}, pipe {pipe}", expectations)

    def test_tries_to_replace_the_socket_of_a_daemon(self):
        for attempt in ('replacing "control"', 'removing "control"', "making a file"):
            fact = self.whole.fact("mps-pipe", f"user 0, pipe read-only: {attempt}")
            self.assertEqual(fact, "Read-only file system")
            fact = self.whole.fact("mps-pipe", f"user 0, pipe read-write: {attempt}")
            self.assertEqual(fact, "done")

    def test_finds_the_device_files_that_nvml_keeps_open(self):
        fact = self.whole.fact("release", "device files that are open while NVML is")
        self.assertEqual(fact, ["nvidiactl"])
        self.assertIn("only --reset", self.whole.fact("release", "reset"))

    def test_finds_that_a_silent_connection_blocks_the_daemon(self):
        for user in (0, 65534):
            who = f"user {user} of a container: "
            self.assertEqual(self.whole.fact("mps-client-folder", who + "files of its folder"), "control")
            self.assertEqual(self.whole.fact("mps-client-folder", who + "connections"), 1)
            self.assertEqual(self.whole.fact("mps-client-folder", who + "writing to a FIFO"), "none")
            answer = self.whole.fact("mps-client-folder", who + "answer of the daemon meanwhile")
            self.assertNotIn("100", answer)

    def test_kills_as_many_clients_as_asked(self):
        name = "clients killed with work in flight"
        self.assertEqual(self.whole.fact("mps-kill-clients", name), 50)

    def test_finds_how_many_clients_there_may_be(self):
        self.assertEqual(self.whole.fact("mps-many-clients", "clients at once"), 48)
        refusal = self.whole.fact("mps-many-clients", "error of the next client")
        self.assertIn("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", refusal)

    def test_describes_every_check_in_its_order(self):
        readme = pathlib.Path(__file__).parents[3] / "bench/gpu/README.md"
        rows = readme.read_text().split("## The checks")[1].split("\n## ")[0].split("\n")
        cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
        described = [name for cell in cells for name in re.findall("`([^`]+)`", cell)]
        self.assertEqual(described, [*listed_checks(), "settings"])

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

    def test_each_field_that_nvidia_smi_has_otherwise(self):
        self.node.set_nvml(more="smi compute_mode Prohibited\nsmi compute_cap 7.5\nsmi total 9 MiB")
        run = self.node.run_only("nvml-fields")
        self.assertEqual(
            sorted(run.broken_names("nvml-fields")),
            [
                "compute capability is that of nvidia-smi",
                "compute mode is that of nvidia-smi",
                "memory total is that of nvidia-smi",
            ],
        )

    def test_functions_that_the_driver_lacks(self):
        node = Node(nvml="libnvidia-ml.so.1")
        self.addCleanup(node.remove)
        run = node.run_only("nvml-fields")
        absent = run.fact("nvml-fields", "NVML functions that this driver lacks")
        self.assertEqual(absent, ["nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"])

    def test_the_memory_of_a_process_that_nvidia_smi_has_otherwise(self):
        self.node.set_nvml(more="smi used_memory 9 MiB")
        run = self.node.run_only("process-lists")
        self.assertEqual(len(run.broken_names("process-lists")), 3)

    def test_the_utilization_that_nvidia_smi_has_otherwise(self):
        self.node.set_nvml("gpu=97", more="smi gpu_util 12 %")
        run = self.node.run_only("utilization")
        self.expect(run, utilization="FAILED")

    def test_the_reason_for_a_server_that_does_not_start(self):
        self.node.behaves("no-mps")
        run = self.node.run_only("mps-start")
        self.expect(run, mps_start="FAILED")
        for name in ("answer to start_server", "status of the server", "end of daemon.log"):
            run.fact("mps-start", name)

    def test_a_server_that_does_not_start(self):
        self.node.daemon_behaves("server-fails")
        run = self.node.run_only("mps-start")
        self.expect(run, mps_start="ERROR")
        self.assertIn("no CUDA-capable device is detected", run.check("mps-start")["reason"])

    # The device file of the card is open while a check runs, but not while its release is tried.
    def test_the_card_stays_initialized_between_checks(self):
        process = self.node.start("--only", "mps-shares-alone")
        self.wait_for_a_program(process)
        opened = []
        for link in pathlib.Path(f"/proc/{self.trial_of(process)}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
                opened.append(os.readlink(link))
        self.assertIn(f"{self.node.root}/dev/nvidia0", opened)
        process.communicate(timeout=TIMEOUT_S)

    def trial_of(self, process):
        """The process that runs the checks, a child of the one that forwards signals."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        return children.read_text().split()[0]

    def test_memory_that_is_reserved_is_not_announced(self):
        self.node.make_machine(reserved_mib=600)
        run = self.node.run_only("memory")
        self.expect(run, memory="passed")

    def test_a_module_that_the_device_plugin_loads(self):
        self.node.unload_uvm()
        self.node.add_modprobe()
        run = self.node.run_only("device-files")
        self.expect(run, device_files="passed")
        self.assertIn("511 nvidia-uvm", (self.node.root / "proc/devices").read_text())
        before = run.fact("device-files", "device files after NVML was opened")
        self.assertNotIn("nvidia-uvm", before)

    def test_a_module_that_cannot_be_loaded(self):
        self.node.unload_uvm()
        run = self.node.run_only("device-files")
        self.expect(run, device_files="FAILED")

    def test_a_library_that_keeps_a_device_file_open(self):
        self.node.set_nvml(more="leaks")
        run = self.node.run_only("release", flags=["--reset"])
        self.expect(run, release="FAILED")
        self.assertIn("nvidiactl", run.broken("release")[0])
        self.assertIn("In use by another client", run.broken("release")[1])

    def test_a_card_is_reset_only_if_asked(self):
        run = self.node.run_only("release", flags=["--reset"])
        self.expect(run, release="passed", settings="passed")
        self.assertIn("In use", run.fact("release", "reset while NVML is open"))
        self.assertEqual([line for line in self.node.log() if "reset" in line], [f"reset {CARD}"])

    # What nvidia-ctk's hooks do: libraries are mounted by their versioned names.
    LINK = (
        f'root=$(sed -n \'s/.*"bundle":"\\([^"]*\\)".*/\\1/p\')/root/{LIBRARIES}; '
        'for name in libcuda libnvidia-ml; do ln -s $name.so.$1 $root/$name.so.1; done'
    )

    def test_the_files_and_hooks_of_a_toolkit(self):
        self.node.add_toolkit_spec(self.LINK)
        run = self.node.run_only("container")
        self.expect(run, container="passed")
        self.assertEqual(run.fact("container", "files and hooks of NVIDIA's CDI spec"), [3, 1])
        self.assertEqual(len(run.expectations("container")), 9)

    def test_a_hook_of_a_toolkit_that_does_nothing(self):
        self.node.add_toolkit_spec("exit 0")
        run = self.node.run_only("container")
        self.assertEqual(len(run.broken_names("container")), 4)
        self.assertIn("libcuda.so.1: cannot open shared object", run.broken("container")[0])

    def test_an_nvidia_smi_that_containers_do_not_get(self):
        (self.node.root / "usr/bin/nvidia-smi").unlink()
        run = self.node.run_only("container")
        self.assertEqual(
            run.broken_names("container"), ["nvidia-smi lists the card in a container"]
        )

    def copy_of_folder(self):
        folder = self.node.path / "folder"
        shutil.copytree(FOLDER, folder, symlinks=True)
        return folder

    def folder_with_hook(self, script):
        """A copy of the folder whose hook is a script."""
        folder = self.copy_of_folder()
        (folder / "bin/mgpu-set-limits").unlink()
        self.node.set_program(folder / "bin/mgpu-set-limits", script)
        return folder

    def test_a_hook_that_lets_a_container_start_without_its_limit(self):
        run = self.node.run_only(
            "driver-limits-hook", flags=["--folder", str(self.folder_with_hook("exit 0"))]
        )
        name = "a container whose limit cannot be set does not start"
        self.assertIn(name, run.broken_names("driver-limits-hook"))

    def run_hook_with_cgroup_v2(self):
        """Runs the trial where it finds cgroup v2 alone, whatever this machine has."""
        script = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
        prefix = ("unshare", "-m", "bash", "-c", script, "bash")
        if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
            self.skipTest("cgroup v2 cannot be mounted here")
        return self.node.run_only("driver-limits-hook", prefix=prefix)

    def test_a_hook_that_sets_the_limit_of_a_container(self):
        run = self.run_hook_with_cgroup_v2()
        self.expect(run, driver_limits_hook="passed")
        self.assertEqual(run.fact("driver-limits-hook", "largest allocation"), 2048 - CONTEXT_MIB)

    def test_a_driver_that_does_not_hold_the_limit_of_a_hook(self):
        self.node.behaves("no-limit")
        run = self.run_hook_with_cgroup_v2()
        self.assertEqual(
            run.broken_names("driver-limits-hook"), ["the limit that the hook sets holds"]
        )

    def test_a_driver_that_sets_another_limit(self):
        self.node.set_nvml(more=f"readback {CARD} 4096")
        run = self.node.run_only("driver-limits", "driver-limits-hook")
        self.expect(run, driver_limits="FAILED", driver_limits_hook="FAILED")
        self.assertIn("and is 4096 bytes", run.broken("driver-limits")[0])

    def test_a_kernel_without_the_controller_of_the_limits(self):
        (self.node.root / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
        self.node.set_nvml(more="fail nvmlDeviceSetMemoryLimits_v1 6")
        run = self.node.run_only("driver-limits", "driver-limits-hook")
        self.expect(run, driver_limits="skipped", driver_limits_hook="skipped")

    def test_a_hook_that_does_not_reach_the_device_plugin(self):
        run = self.node.run_only(
            "driver-limits-hook", flags=["--folder", str(self.folder_with_hook("exit 1"))]
        )
        self.assertIn("did not reach", run.broken("driver-limits-hook")[0])

    def test_a_driver_that_does_not_hold_the_limit_of_a_cgroup(self):
        self.node.behaves("no-limit")
        run = self.node.run_only("driver-limits")
        self.expect(run, driver_limits="FAILED")

    def test_a_driver_without_limits_of_cgroups(self):
        node = Node(nvml="libnvidia-ml.so.1")
        self.addCleanup(node.remove)
        run = node.run_only("driver-limits")
        self.expect(run, driver_limits="skipped")
        self.assertIn("has no nvmlDeviceSetMemoryLimits_v1", run.output)

    def test_a_hook_for_a_driver_without_limits_of_cgroups(self):
        node = Node(nvml="libnvidia-ml.so.1")
        self.addCleanup(node.remove)
        run = node.run_only("driver-limits-hook")
        self.expect(run, driver_limits_hook="skipped")

    def test_a_driver_whose_libraries_we_do_not_find(self):
        self.node.remove_library("libcuda")
        run = self.node.run_only("driver-libraries", "container")
        self.expect(run, driver_libraries="FAILED", container="FAILED")
        self.assertIn("libcuda.so.1: cannot open shared object", run.broken("container")[0])

    def test_a_library_that_limits_nothing(self):
        folder = self.copy_of_folder()
        shutil.copy(Node.stand_ins / "libcuda.so.1", folder / "bin/libmgpu-cuda.so")
        run = self.node.run_only("library", flags=["--folder", str(folder)])
        self.expect(run, library="FAILED")
        broken = run.broken_names("library")
        for name in ("as user 0", "as user 65534", "for two programs together"):
            self.assertIn(f"the share holds {name}", broken)

    def test_a_card_that_computes_wrongly(self):
        self.node.behaves("wrong-sum")
        run = self.node.run_only("mps-start")
        self.expect(run, mps_start="FAILED")

    def test_a_limit_that_does_not_hold(self):
        self.node.behaves("no-limit")
        run = self.node.run_only("mps-memory")
        self.expect(run, mps_memory="FAILED")
        self.assertIn("MiB were allocated", run.broken("mps-memory")[0])

    def test_a_limit_that_does_not_hold_in_containers(self):
        self.node.behaves("no-limit")
        run = self.node.run_only("mps-container")
        self.expect(run, mps_container="FAILED")
        self.assertEqual(len(run.broken_names("mps-container")), 4)

    def test_an_mps_that_needs_a_pipe_directory_that_is_read_write(self):
        self.node.behaves("no-read-only-pipe")
        run = self.node.run_only("mps-container")
        self.assertEqual(
            run.broken_names("mps-container"),
            [f"the limit holds as user {user}, pipe read-only" for user in (0, 65534)],
        )

    def test_a_limit_that_counts_for_all_processes_together(self):
        self.node.behaves("limit-together")
        run = self.node.run_only("mps-two-processes")
        self.assertEqual(
            run.broken("mps-two-processes"), ["the limit counts for all processes together"]
        )

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

    def test_another_number_of_kills(self):
        run = self.node.run_only("mps-kill-clients", flags=["--kills", "3"])
        self.expect(run, mps_kill_clients="passed")
        self.assertEqual(run.fact("mps-kill-clients", "clients killed with work in flight"), 3)
        self.assertEqual(run.fact("mps-kill-clients", "neighbours that ended with them"), 0)

    def test_a_killed_client_that_ends_its_neighbour(self):
        self.node.behaves("shared-fault")
        run = self.node.run_only("mps-kill-clients", flags=["--kills", "3"])
        self.expect(run, mps_kill_clients="passed")
        # On a busy machine, a client may be killed between two kernels.
        self.assertIn(run.fact("mps-kill-clients", "neighbours that ended with them"), (1, 2, 3))

    def test_a_daemon_that_does_not_end_a_client(self):
        self.node.daemon_behaves("no-terminate")
        run = self.node.run_only("mps-end-client")
        self.assertEqual(
            run.broken_names("mps-end-client"),
            ["the client that is ended gets an error", "the daemon does not list it any more"],
        )

    def test_a_daemon_that_ends_the_neighbour_too(self):
        self.node.daemon_behaves("terminate-all")
        run = self.node.run_only("mps-end-client")
        self.assertEqual(run.broken_names("mps-end-client"), ["the neighbour goes on"])

    def test_an_exclusive_mode_without_effect(self):
        self.node.behaves("no-exclusive")
        run = self.node.run_only("mps-exclusive", flags=["--exclusive"])
        self.assertEqual(
            run.broken_names("mps-exclusive"),
            ["a program outside of MPS gets no context while the card is exclusive"],
        )

    def test_an_exclusive_mode_that_is_restored_without_effect(self):
        self.node.behaves("stays-exclusive")
        run = self.node.run_only("mps-exclusive", flags=["--exclusive"])
        self.assertEqual(
            run.broken_names("mps-exclusive"), ["a program outside of MPS computes afterwards"]
        )

    def test_a_compute_mode_that_cannot_be_set(self):
        self.node.set_nvml(more=f"keep_mode {CARD}")
        run = self.node.run_only("mps-exclusive", flags=["--exclusive"])
        self.assertIn("the device plugin makes the card exclusive", run.broken_names("mps-exclusive"))

    def test_what_exclusive_mode_does_and_puts_it_back(self):
        run = self.node.run_only("mps-exclusive", flags=["--exclusive"])
        self.expect(run, mps_exclusive="passed", settings="passed")
        refusal = run.fact("mps-exclusive", "a program outside of MPS")
        self.assertIn("CUDA_ERROR_DEVICE_UNAVAILABLE", refusal)
        self.assertEqual(self.node.modes(), ["set_mode 3", "set_mode 0"])


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
        run = self.node.run_only("nvml-fields", "mps-start", "device-files", flags=["--check-limit", "10s"])
        self.expect(run, nvml_fields="passed", mps_start="TIMED OUT", device_files="TIMED OUT")
        self.assertEqual(run.code, 1)
        self.assertEqual(self.node.processes(), [])
        # The findings before it hung are kept.
        self.assertGreaterEqual(run.fact("mps-start", "time until the daemon answered"), 0)

    def test_a_driver_that_hangs_in_nvml_stops_no_other(self):
        self.node.set_nvml(more="hang nvmlDeviceGetProcessUtilization")
        run = self.node.run_only("utilization", "driver-libraries", flags=["--check-limit", "10s"])
        self.expect(run, utilization="TIMED OUT", driver_libraries="passed")

    def test_a_call_that_the_driver_refuses_is_named(self):
        self.node.behaves("fail cuDevicePrimaryCtxRetain 999")
        run = self.node.run_only("device-files")
        self.expect(run, device_files="ERROR")
        self.assertIn("cuDevicePrimaryCtxRetain: CUDA_ERROR_UNKNOWN", run.output)

    def test_checks_that_no_time_is_left_for_are_named(self):
        run = self.node.run_only("memory", flags=["--time-limit", "1s"])
        self.expect(run, memory="TIMED OUT")
        self.assertEqual(run.check("memory")["reason"], "no time was left for it")
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
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-exclusive", "--exclusive")
        self.wait_for_a_program(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(self.node.modes(), ["set_mode 3", "set_mode 0"])


    def test_a_second_interrupt_does_not_keep_settings_from_being_put_back(self):
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-exclusive", "--exclusive")
        self.wait_for_a_program(process)
        self.node.set_nvml(more="hang nvmlDeviceSetComputeMode")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        self.node.set_nvml()
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.node.modes(), ["set_mode 3", "set_mode 0"])

    def test_settings_of_a_card_that_became_unhealthy_are_put_back(self):
        self.node.behaves("hang cuDevicePrimaryCtxRetain")
        process = self.node.start("--only", "mps-exclusive", "--exclusive")
        self.wait_for_a_program(process)
        self.node.set_nvml("remap_failed=1")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(self.node.modes(), ["set_mode 3", "set_mode 0"])

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
        command = self.node.command("--only", "driver-libraries")
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
    global FOLDER
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Node.folder, Node.stand_ins = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    FOLDER = Node.folder
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
