package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const secondName = "mgpu-second-node"

// secondFolder returns the folder of the second node; `folder` is that of the first one.
func secondFolder(folder string) string { return folder + "-2" }

// startSecond starts another kubelet and containerd on this machine, until the end of the test. Its pods
// are in the network of those of the first node. Two kubelets have the same folder for device plugins,
// and each unmounts what it finds there, so that the second node has a mount namespace of its own.
func (n *Node) startSecond(t testing.TB) *Node {
	t.Helper()
	second := &Node{plane: n.plane, name: secondName, token: secondToken, folder: secondFolder(n.folder),
		cgroup: filepath.Join(n.cgroup, "second"), addresses: n.addresses, runtime: n.runtime, minor: n.minor}
	private := second.path("device-plugins")
	if err := os.MkdirAll(private, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	second.mounts, err = startProcess("unshare", second.path("mounts.log"), "unshare", "--mount", "--propagation", "private",
		"sh", "-c", `mount --bind "$0" "$1" && : >"$0/mounted" && exec sleep infinity`, private, devicePluginAt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.end(t) })
	waitFor(t, nodeReadyLimit, "the mounts of the second node", func() (bool, string) {
		_, err := os.Stat(filepath.Join(private, "mounted"))
		return err == nil, fmt.Sprint(err, " ", second.mounts.logTail(3))
	})
	if err := second.start(); err != nil {
		t.Fatal(err)
	}
	return second
}

// startInside starts a program in the mount namespace of the node.
func (n *Node) startInside(name, program string, arguments ...string) (*Process, error) {
	if n.mounts == nil {
		return startProcess(name, n.path(name+".log"), program, arguments...)
	}
	inside := fmt.Sprintf("--mount=/proc/%d/ns/mnt", n.mounts.command.Process.Pid)
	return startProcess(name, n.path(name+".log"), "nsenter", append([]string{inside, program}, arguments...)...)
}

// end removes the pods of the second node, its processes and its files.
func (n *Node) end(t testing.TB) {
	if err := n.removePods(); err != nil {
		t.Error(err)
	}
	for _, process := range []*Process{n.kubelet, n.containerd} {
		if process != nil {
			process.Kill()
		}
	}
	endTasks(n.folder)
	n.mounts.Kill()
	_ = n.plane.admin.CoreV1().Nodes().Delete(context.Background(), n.name, metav1.DeleteOptions{})
	if err := os.RemoveAll(n.folder); err != nil {
		t.Error(err)
	}
}
