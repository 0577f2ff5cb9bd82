package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of files, cgroups and network devices outside of the node's folder. Only the tests use these
// names, so all of them may be removed.
const (
	nodeCgroup      = "mgpu-test-node"
	nodeBridge      = "mgpu-test0"
	nodeNetwork     = "mgpu-test"
	leftoversMarker = "/run/mgpu-test-node" // has the folder of the running node, and the process ID of its test
	cgroupRoot      = "/sys/fs/cgroup"
	kubeletLinks    = "/var/log/containers"
	networkResults  = "/var/lib/cni/results"
)

// sweepLeftovers removes the leftovers of a test run that was killed. It is an error if another test run
// is active.
func sweepLeftovers() error {
	text, err := os.ReadFile(leftoversMarker)
	if err != nil {
		return nil
	}
	folder, pid, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	number, _ := strconv.Atoi(pid)
	if number > 0 && number != os.Getpid() && syscall.Kill(number, 0) == nil {
		return fmt.Errorf("the process %d runs node tests in %s, and a machine can have only one node", number, folder)
	}
	return errors.Join(sweep(folder), os.RemoveAll(filepath.Dir(folder)))
}

func markLeftovers(folder string) error {
	return os.WriteFile(leftoversMarker, []byte(fmt.Sprintf("%s\n%d\n", folder, os.Getpid())), 0o644)
}

// sweep stops all containers of the node in the folder, and removes its files, cgroups and network
// devices. It can be repeated.
func sweep(folder string) error {
	endTasks(folder)
	endTasks(secondFolder(folder))
	errs := []error{removeCgroups(), unmountAll(folder), os.RemoveAll(secondFolder(folder))}
	errs = append(errs, removeBridge())
	removeMatching(filepath.Join(networkResults, nodeNetwork+"-*"))
	removeLinksInto(kubeletLinks, folder)
	removeLinksInto(kubeletLinks, secondFolder(folder))
	removeMatching(kubeletLinks + "/*_testnode*")
	removeMatching(podLogsOfOldKubelets + "/testnode*")
	removeMatching(filepath.Join(devicePluginAt, "*"))
	for _, empty := range []string{devicePluginAt, filepath.Dir(devicePluginAt), networkResults,
		filepath.Dir(networkResults), kubeletLinks, podLogsOfOldKubelets} {
		_ = os.Remove(empty) // fails if the folder has other files
	}
	return errors.Join(append(errs, os.RemoveAll(leftoversMarker))...)
}

func tasksFolder(folder string) string {
	return filepath.Join(folder, "state", "io.containerd.runtime.v2.task", "k8s.io")
}

func tasksIn(folder string) []string {
	tasks, _ := filepath.Glob(filepath.Join(tasksFolder(folder), "*"))
	return tasks
}

// endTasks kills all containers and their shims.
func endTasks(folder string) {
	for _, task := range tasksIn(folder) {
		_ = killPidIn(filepath.Join(task, "init.pid"))
		removeShimSocket(filepath.Join(task, "bootstrap.json"))
	}
	for _, pid := range shimsOf(folder) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// The folder of a shim's socket cannot be configured.
func removeShimSocket(bootstrap string) {
	var shim struct{ Address string }
	text, _ := os.ReadFile(bootstrap)
	if err := json.Unmarshal(text, &shim); err == nil && strings.HasPrefix(shim.Address, "unix://") {
		_ = os.Remove(strings.TrimPrefix(shim.Address, "unix://"))
	}
}

// shimsOf returns the process IDs of the node's shims. They have the path of containerd's socket in their
// arguments.
func shimsOf(folder string) []int {
	var pids []int
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, command := range commands {
		text, _ := os.ReadFile(command)
		words := strings.Split(string(text), "\x00")
		if strings.HasSuffix(words[0], "/containerd-shim-runc-v2") &&
			slices.Contains(words, filepath.Join(folder, "containerd.sock")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(command)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func killPidIn(file string) error {
	pid, err := pidIn(file)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func pidIn(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s has %q, want a pid", file, text)
	}
	return pid, nil
}

// cgroupHierarchies returns the roots of kubelet's cgroups: one, or one for each controller.
func cgroupHierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	folders, _ := filepath.Glob(filepath.Join(cgroupRoot, "*"))
	return slices.DeleteFunc(folders, func(folder string) bool {
		found, err := os.Lstat(folder)
		return err != nil || !found.IsDir()
	})
}

// removeCgroups kills the processes in the node's cgroups and removes the cgroups, the deepest first.
func removeCgroups() error {
	var errs []error
	for _, hierarchy := range cgroupHierarchies() {
		var groups []string
		_ = filepath.WalkDir(filepath.Join(hierarchy, nodeCgroup), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for _, group := range slices.Backward(groups) {
			errs = append(errs, removeCgroup(group))
		}
	}
	return errors.Join(errs...)
}

func removeCgroup(group string) error {
	return poll(5*time.Second, group+" to be removed", func() (bool, string) {
		text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		for _, pid := range strings.Fields(string(text)) {
			if number, err := strconv.Atoi(pid); err == nil && number > 1 {
				_ = syscall.Kill(number, syscall.SIGKILL)
			}
		}
		err := os.Remove(group)
		return err == nil || os.IsNotExist(err), fmt.Sprint(err)
	})
}

// unmountAll unmounts all file systems below the folder, the last one first.
func unmountAll(folder string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range slices.Backward(lines) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil && err != syscall.EINVAL {
				errs = append(errs, fmt.Errorf("unmounting %s: %w", fields[4], err))
			}
		}
	}
	return errors.Join(errs...)
}

func removeBridge() error {
	return poll(5*time.Second, nodeBridge+" to be removed", func() (bool, string) {
		if _, err := net.InterfaceByName(nodeBridge); err != nil {
			return true, ""
		}
		_, err := runTool("ip", "link", "delete", nodeBridge)
		return false, fmt.Sprint(err)
	})
}

func removeMatching(pattern string) {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		_ = os.RemoveAll(path)
	}
}

// removeLinksInto removes the symbolic links in `links` that point into `target`.
func removeLinksInto(links, target string) {
	paths, _ := filepath.Glob(filepath.Join(links, "*"))
	for _, path := range paths {
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, target+"/") {
			_ = os.Remove(path)
		}
	}
}

// runTool runs a program. If it fails, the error contains its output.
func runTool(name string, arguments ...string) (string, error) {
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w: %s", filepath.Base(name), arguments, err, output)
	}
	return string(output), nil
}
