package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	nodeBridge   = "mgpu-test0"
	nodeNetwork  = "mgpu-test"
	nodeCgroup   = "mgpu-test-node-" // begins the name of the cgroup
	cgroupRoot   = "/sys/fs/cgroup"
	markers      = "/run" // has a file for each node, with the name of its cgroup
	unfinished   = ".new"
	markerFormat = "%q\n"
)

// markNode writes the folder of the node to a file, which is locked as long as this process lives.
func markNode(folder, cgroup string) (marker *os.File, err error) {
	path := filepath.Join(markers, cgroup)
	if marker, err = os.Create(path + unfinished); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(marker, markerFormat, folder)
	return marker, errors.Join(err, syscall.Flock(int(marker.Fd()), syscall.LOCK_EX), os.Rename(marker.Name(), path))
}

// sweepLeftovers removes the files and cgroups of test runs that were killed. The kernel has ended their processes
// and removed their mounts and network devices with their namespaces.
func sweepLeftovers() error {
	paths, _ := filepath.Glob(filepath.Join(markers, nodeCgroup+"*"))
	var errs []error
	for _, path := range paths {
		if !strings.HasSuffix(path, unfinished) {
			errs = append(errs, sweepMarked(path))
		}
	}
	return errors.Join(errs...)
}

// sweepMarked does nothing if another test run has locked the marker.
func sweepMarked(path string) error {
	marker, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer marker.Close()
	if syscall.Flock(int(marker.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	// It may have been removed between both calls, by a run that has ended or by another one that sweeps.
	locked, err := marker.Stat()
	if named, gone := os.Stat(path); err != nil || gone != nil || !os.SameFile(locked, named) {
		return nil
	}
	var folder string
	if _, err := fmt.Fscanf(marker, markerFormat, &folder); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(removeCgroups(filepath.Base(path)), os.RemoveAll(filepath.Dir(folder)), os.Remove(path))
}

// sweep stops all containers of the node, and removes its files and cgroups.
func (n *Node) sweep() error {
	endTasks(n.folder)
	endTasks(secondFolder(n.folder))
	errs := []error{removeCgroups(n.cgroup), unmountAll(n.folder), os.RemoveAll(secondFolder(n.folder))}
	if n.marker != nil {
		errs = append(errs, os.Remove(filepath.Join(markers, n.cgroup)), n.marker.Close())
	}
	return errors.Join(errs...)
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
	}
	for _, pid := range shimsOf(folder) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
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

// removeCgroups kills the processes in the cgroups of a node and removes the cgroups, the deepest first.
func removeCgroups(cgroup string) error {
	var errs []error
	for _, hierarchy := range cgroupHierarchies() {
		var groups []string
		_ = filepath.WalkDir(filepath.Join(hierarchy, cgroup), func(path string, entry os.DirEntry, err error) error {
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

// runTool runs a program. If it fails, the error contains its output.
func runTool(name string, arguments ...string) (string, error) {
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w: %s", filepath.Base(name), arguments, err, output)
	}
	return string(output), nil
}
