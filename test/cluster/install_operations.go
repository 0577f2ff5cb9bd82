package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// operationsDocument has commands that the tests of install_operations_test.go run as they are written.
func operationsDocument(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(deployPath("OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// commandsIn returns the blocks of commands in a document.
func commandsIn(document string) []string {
	var blocks []string
	for i, part := range strings.Split("\n"+document, "\n```") {
		if i%2 == 1 {
			blocks = append(blocks, strings.TrimPrefix(part, "\n"))
		}
	}
	return blocks
}

// runOperations runs the block of deploy/OPERATIONS.md that begins with these words, and returns its output.
// The variables are those that the document names.
func (r *Release) runOperations(t testing.TB, begin string, variables ...string) string {
	t.Helper()
	output, err := r.operations(t, begin, variables...)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.state())
	}
	return output
}

// operations runs the block as an administrator does, at the root of the repository.
func (r *Release) operations(t testing.TB, begin string, variables ...string) (string, error) {
	t.Helper()
	return r.runBlock(t, blockOf(t, "OPERATIONS.md", commandsIn(operationsDocument(t)), begin), variables...)
}

// blockOf returns the block of a document that begins with these words.
func blockOf(t testing.TB, document string, blocks []string, begin string) string {
	t.Helper()
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.HasPrefix(block, begin) })
	if at < 0 {
		t.Fatalf("deploy/%s has no commands that begin with %q", document, begin)
	}
	return blocks[at]
}

func (r *Release) runBlock(t testing.TB, block string, variables ...string) (string, error) {
	t.Helper()
	command := r.asAdministrator("-c", "set -euo pipefail\n"+block)
	command.Dir = repositoryPath()
	command.Env = append(command.Env, "PATH="+r.tools(t)+":/usr/bin:/bin", "NODE="+nodeName)
	command.Env = append(command.Env, variables...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", block, err, output)
	}
	return string(output), nil
}

// tools returns a folder with the programs that an administrator has.
func (r *Release) tools(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(r.folder, "tools")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	etcd := os.Getenv("MGPU_ETCD_TOOLS_FOLDER")
	for name, path := range map[string]string{"kubectl": filepath.Join(plane.binaries, "kubectl"),
		"helm": os.Getenv("MGPU_HELM_BINARY"), "kubectl-mgpu": kubectlMgpuBinary(t),
		"etcdctl": filepath.Join(etcd, "etcdctl"), "etcdutl": filepath.Join(etcd, "etcdutl")} {
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	return folder
}

// restartScheduler starts the kube-scheduler of the cluster again with the files in the folder.
func (r *Release) restartScheduler(t testing.TB, folder string) {
	t.Helper()
	r.useScheduler(t, SchedulerSetup{configurationPath: filepath.Join(folder, "kube-scheduler.yaml")})
}

// schedulerFolder is where callExtender has written the files of kube-scheduler.
func (r *Release) schedulerFolder() string { return filepath.Join(r.folder, "scheduler") }

// restoreEtcd replaces the data of etcd by those of a snapshot, with the commands of the document.
func (r *Release) restoreEtcd(t testing.TB, snapshot string) {
	t.Helper()
	r.scheduler.Kill()
	plane.apiServer.Kill()
	plane.etcd.Kill()
	data := filepath.Join(plane.folder, "etcd")
	if err := os.Rename(data, data+".before"); err != nil {
		t.Fatal(err)
	}
	r.runOperations(t, "etcdutl snapshot restore", "SNAPSHOT="+snapshot, "DATA_DIR="+data)
	if err := plane.startEtcd(); err != nil {
		t.Fatal(err)
	}
	startAPIServerAgain(t)
	if err := os.RemoveAll(data + ".before"); err != nil {
		t.Fatal(err)
	}
}

// waitGood waits until the doctor finds nothing wrong, but that nothing limits the memory of cards of a file.
func (r *Release) waitGood(t testing.TB) {
	t.Helper()
	waitFor(t, 2*time.Minute, "the doctor to find nothing wrong", func() (bool, string) {
		_, err := r.operations(t, "kubectl mgpu doctor")
		said := fmt.Sprint(err)
		return err == nil || strings.Contains(said, "--isolation=auto is none") &&
			strings.Contains(said, "errors: 0, warnings: 1, not checked: 0,"), said
	})
}
