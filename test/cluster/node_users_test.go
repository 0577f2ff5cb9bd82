package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inUserNamespace lets the pod have a user namespace, with a runtime that supports it.
func (w *NodeWorld) inUserNamespace(t *testing.T, builder *PodBuilder) *PodBuilder {
	t.Helper()
	if snapshotterFor(w.node.folder) == "native" {
		t.Skip("the images of this node cannot be mounted for other users")
	}
	w.node.letOthersPass(t)
	w.plugin.makeNodesOfTheHost(t)
	name, no := w.namespace+"-"+usersRuntime, false
	classes := plane.admin.NodeV1().RuntimeClasses()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: usersRuntime}
	if _, err := classes.Create(w.ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { classes.Delete(w.ctx, name, metav1.DeleteOptions{}) })
	builder.pod.Spec.RuntimeClassName, builder.pod.Spec.HostUsers = &name, &no
	return builder
}

// letOthersPass lets all users get to the roots of their containers, as /run/containerd does. It changes the temporary
// folders of the tests only.
func (n *Node) letOthersPass(t *testing.T) {
	t.Helper()
	for folder := n.folder; strings.HasPrefix(folder, os.TempDir()); folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&os.ModeSticky != 0 { // of all programs
			return
		}
		if err := os.Chmod(folder, info.Mode().Perm()|0o011); err != nil {
			t.Fatal(err)
		}
	}
}

// makeNodesOfTheHost makes the cards' device nodes where containers have them: in a user namespace nobody can make device
// nodes, so that runc mounts those of the host.
func (p *DevicePlugin) makeNodesOfTheHost(t *testing.T) {
	t.Helper()
	minors := map[string]int{"/dev/nvidiactl": controlMinor}
	for _, card := range p.cards {
		minors[card.containerPath()] = card.Index
	}
	for path, minor := range minors {
		// A run that was killed may have left the same node.
		if info, err := os.Lstat(path); err == nil {
			if found, ok := info.Sys().(*syscall.Stat_t); !ok || found.Rdev != uint64(p.major<<8|minor) {
				t.Skip(path + " belongs to a driver")
			}
		}
		p.makeNode(t, path, minor)
		t.Cleanup(func() { os.Remove(path) })
	}
}

// wantOtherUsers checks that user 0 of a container is another one on the node.
func (n *Node) wantOtherUsers(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", n.pidOf(t, pod, container)))
	if fields := strings.Fields(string(table)); err != nil || len(fields) != 3 || fields[0] != "0" || fields[1] == "0" {
		t.Errorf("the users of %s are mapped as %q (%v)", container, table, err)
	}
}

// A container in a user namespace has its cards and nothing else.
func TestNodeUserNamespacesSeeExactlyTheirCards(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	world.createBound(t, world.inUserNamespace(t, world.pod("apart").share(30, 2048).share(20, 4096)), "0", "1")
	world.checkViews(t, "apart")
	world.node.wantOtherUsers(t, world.waitRunning(t, "apart"), "c0")
}

// The library limits containers whose users are not those of the node, also after a restart of the plugin and the container.
func TestNodeUserNamespacesHaveTheLimitsOfTheLibrary(t *testing.T) {
	world := newInterceptWorld(t, "--compute", "burst")
	pod := world.inUserNamespace(t, world.pod("apart").share(30, 2048).share(20, 4096).running(twoClients))
	one := int64(65534)
	pod.pod.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: &one}
	world.createBound(t, pod, "0", "0")
	running := world.waitRunning(t, "apart")
	world.node.checkTwoClients(t, running)
	world.node.wantOtherUsers(t, running, "c0")
	world.node.checkPages(t, running, "c0")
	world.plugin.kill()
	world.plugin.startAgain(t)
	world.node.killContainer(t, running, "c0")
	world.node.checkTwoClients(t, world.waitRestarted(t, "apart", 1))
	world.waitMetric(t, 2048<<20, "mgpu_container_memory_limit_bytes", `container="c0"`)
}
