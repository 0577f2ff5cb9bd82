package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneMoreNode makes the folder, the cgroups and the marker of a node, as a test run does, and returns their paths.
func oneMoreNode(t testing.TB) (marker *os.File, paths []string) {
	t.Helper()
	if why := cannotRunContainers(t.TempDir()); why != "" {
		t.Skip(why)
	}
	run, err := os.MkdirTemp(t.TempDir(), folderPrefix)
	if err != nil {
		t.Fatal(err)
	}
	cgroup := nodeCgroup + strings.TrimPrefix(filepath.Base(run), folderPrefix)
	paths = []string{filepath.Join(run, "node", "kubelet")}
	for _, hierarchy := range cgroupHierarchies() {
		paths = append(paths, filepath.Join(hierarchy, cgroup, "kubepods", "besteffort"))
	}
	for _, path := range paths {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = removeCgroups(cgroup) })
	if marker, err = markNode(filepath.Join(run, "node"), cgroup); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(markers, cgroup)
	t.Cleanup(func() { _ = os.Remove(path) })
	return marker, append(paths, path)
}

func TestNodeFilesAndCgroupsOfAKilledRunAreRemoved(t *testing.T) {
	marker, paths := oneMoreNode(t)
	// The kernel closes the files of a killed process.
	if err := marker.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sweepLeftovers(); err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want that it does not exist", path, err)
		}
	}
}

func TestNodeFilesAndCgroupsOfARunningTestStay(t *testing.T) {
	marker, paths := oneMoreNode(t)
	defer marker.Close()
	if err := sweepLeftovers(); err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
