package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	nodeName       = "mgpu-node"
	devicePluginAt = "/var/lib/kubelet/device-plugins" // kubelet has no flag for this folder
	nodeReadyLimit = 90 * time.Second
	podsGoneLimit  = 180 * time.Second
)

// Node is a real kubelet with containerd and runc. All TestNode tests share one; the first test starts
// it, and TestMain stops it. Its files are in `folder`, and in folders that namespaces.sh empties for each test run.
type Node struct {
	plane      *ControlPlane
	name       string
	token      string // of kubelet
	folder     string
	cgroup     string
	addresses  string   // folder of the addresses of pods, which all nodes share
	marker     *os.File // of a test run that is not finished
	mounts     *Process // has the mount namespace of the node; nil: that of the tests
	runtime    string   // folder of containerd, its shim, ctr and the network plugins
	minor      int      // version of kubelet, as 36 for 1.36
	containerd *Process
	kubelet    *Process
	programs   map[string]string // digests of the images of mgpu that it has
	scheduler  bool              // whether it has an image of kube-scheduler
}

// The node, or the error of its start.
var node struct {
	once sync.Once
	real *Node
	err  error
}

// realNode returns the node, which is ready to run pods.
func realNode(t testing.TB) *Node {
	t.Helper()
	if why := cannotRunContainers(t.TempDir()); why != "" {
		t.Skip(why)
	}
	node.once.Do(func() { node.real, node.err = plane.startNode() })
	if node.err != nil {
		t.Fatal(node.err)
	}
	return node.real
}

// cannotRunContainers returns the reason why this machine cannot run a node, or "" if it can.
func cannotRunContainers(scratch string) string {
	if os.Geteuid() != 0 {
		return "a kubelet with containers needs root"
	}
	if node.real != nil {
		return ""
	}
	if os.Getenv("MGPU_TEST_NAMESPACES") == "" {
		return "a kubelet with containers needs namespaces of its own, which test/run.sh makes where the machine allows it"
	}
	if err := syscall.Mount("tmpfs", scratch, "tmpfs", 0, ""); err != nil {
		return "a kubelet with containers needs to mount file systems, and this machine forbids it: " + err.Error()
	}
	if err := syscall.Unmount(scratch, 0); err != nil {
		return "the test mount cannot be unmounted: " + err.Error()
	}
	return ""
}

// stopNode stops the node, if a test has started it.
func stopNode() {
	if node.real != nil {
		node.real.stop()
	}
}

// startNode starts the node. If it fails, it still returns the node, so that the caller can stop it.
func (c *ControlPlane) startNode() (*Node, error) {
	runtime := os.Getenv("MGPU_RUNTIME_FOLDER")
	if runtime == "" {
		return nil, fmt.Errorf("MGPU_RUNTIME_FOLDER is not set; test/run.sh node builds containerd and sets it")
	}
	minor, err := minorOf(c.kubeletProgram())
	if err != nil {
		return nil, err
	}
	if err := sweepLeftovers(); err != nil {
		return nil, err
	}
	one := &Node{plane: c, name: nodeName, token: kubeletToken, folder: filepath.Join(c.folder, "node"), runtime: runtime,
		minor: minor}
	one.cgroup = nodeCgroup + strings.TrimPrefix(filepath.Base(c.folder), folderPrefix)
	one.addresses = one.path("addresses")
	if one.marker, err = markNode(one.folder, one.cgroup); err != nil {
		return one, err
	}
	if err := one.start(); err != nil {
		return one, err
	}
	return one, c.full.startProxy(c)
}

// start starts containerd and kubelet in an empty folder, and waits until the node is ready.
func (n *Node) start() error {
	for _, step := range []func() error{n.prepare, n.startContainerd, n.importImage,
		func() error { return n.startKubelet() }, n.waitReady} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) path(elements ...string) string {
	return filepath.Join(append([]string{n.folder}, elements...)...)
}

func (n *Node) containerdSocket() string   { return n.path("containerd.sock") }
func (n *Node) podResourcesSocket() string { return n.path("kubelet", "pod-resources", "kubelet.sock") }
func (n *Node) cdiFolder() string          { return n.path("cdi") }
func (n *Node) checkpoint() string {
	return filepath.Join(devicePluginAt, "kubelet_internal_checkpoint")
}

// startContainerd starts containerd, also after a kill.
func (n *Node) startContainerd() error {
	var err error
	n.containerd, err = n.startInside("containerd", filepath.Join(n.runtime, "containerd"), "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	return poll(30*time.Second, "containerd to listen", func() (bool, string) {
		if !n.containerd.running() {
			return false, n.containerd.logTail(3)
		}
		connection, err := net.Dial("unix", n.containerdSocket())
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
}

// startKubelet starts kubelet, also after a kill.
func (n *Node) startKubelet(flags ...string) error {
	address, err := machineAddress()
	if err != nil {
		return err
	}
	arguments := []string{"--config", n.path("kubelet.yaml"), "--kubeconfig", n.plane.kubeconfig(n.token),
		"--root-dir", n.path("kubelet"), "--cert-dir", n.path("kubelet-pki"),
		"--hostname-override", n.name, "--v", "2",
		// Otherwise kubelet asks a name server for the name of the node.
		"--node-ip", address.String()}
	n.kubelet, err = n.startInside("kubelet", n.plane.kubeletProgram(),
		slices.Concat(arguments, n.kubeletFlags(), flags)...)
	return err
}

// restartKubelet kills kubelet and starts it with these flags.
func (n *Node) restartKubelet(t testing.TB, flags ...string) {
	t.Helper()
	n.kubelet.Kill()
	if err := n.startKubelet(flags...); err != nil {
		t.Fatal(err)
	}
	if err := n.waitReady(); err != nil {
		t.Fatal(err)
	}
}

// firstPodsOfKubelet is what kubelet logs when it has listed its pods. It admits those of the first list before it lets
// devices of ended pods go.
const firstPodsOfKubelet = `"SyncLoop ADD" source="api"`

// waitReady waits until kubelet has listed its pods and reports that the node is ready, and removes the taint of the new
// node.
func (n *Node) waitReady() error {
	ctx := context.Background()
	err := poll(nodeReadyLimit, "the node to be ready", func() (bool, string) {
		if !n.kubelet.running() {
			return false, "kubelet ended: " + n.kubelet.logTail(3)
		}
		if !n.kubelet.logs(firstPodsOfKubelet) {
			return false, "kubelet has not listed its pods: " + n.kubelet.logTail(3)
		}
		one, err := n.plane.admin.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return conditionOf(one, corev1.NodeReady)
	})
	if err != nil {
		return err
	}
	// The API server adds a taint to every new node, and there is no controller that removes it.
	_, err = n.plane.admin.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType,
		[]byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	return err
}

func conditionOf(one *corev1.Node, kind corev1.NodeConditionType) (bool, string) {
	for _, condition := range one.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue, condition.Reason + ": " + condition.Message
		}
	}
	return false, "no condition " + string(kind)
}

func (n *Node) object(t testing.TB) *corev1.Node {
	t.Helper()
	one, err := n.plane.admin.CoreV1().Nodes().Get(context.Background(), n.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// stop removes the pods while kubelet runs, and then stops all processes and removes all files.
func (n *Node) stop() {
	if err := n.removePods(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, process := range []*Process{n.kubelet, n.containerd} {
		if process != nil {
			process.Kill()
		}
	}
	_ = n.plane.admin.CoreV1().Nodes().Delete(context.Background(), n.name, metav1.DeleteOptions{})
	if err := n.sweep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// removePods deletes all pods of the node and waits until they and their containers are gone.
func (n *Node) removePods() error {
	ctx, options := context.Background(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name}
	if n.kubelet == nil || !n.kubelet.running() || n.containerd == nil || !n.containerd.running() {
		return nil
	}
	return poll(podsGoneLimit, "the node's pods to be gone", func() (bool, string) {
		pods, err := n.plane.admin.CoreV1().Pods("").List(ctx, options)
		if err != nil {
			return false, err.Error()
		}
		names := make([]string, len(pods.Items))
		for i, pod := range pods.Items {
			names[i] = pod.Name
			n.removeSoon(ctx, &pod)
		}
		return len(names) == 0 && len(n.tasks()) == 0, fmt.Sprint(names, len(n.tasks()), " containers")
	})
}

func (n *Node) removeSoon(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	soon := int64(1)
	err := n.plane.admin.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &soon})
	if err != nil && !apierrors.IsNotFound(err) {
		fmt.Fprintln(os.Stderr, err)
	}
}

// forgetDevices restarts kubelet without pods and without its device checkpoint, like a node that was
// drained and created again.
func (n *Node) forgetDevices() error {
	if err := n.removePods(); err != nil {
		return err
	}
	n.kubelet.Kill()
	if err := os.Remove(n.checkpoint()); err != nil {
		return err
	}
	if err := n.startKubelet(); err != nil {
		return err
	}
	return n.waitReady()
}

// tasks returns the folders of the containers that containerd runs, including sandboxes.
func (n *Node) tasks() []string { return tasksIn(n.folder) }

// ctr runs the client of containerd.
func (n *Node) ctr(arguments ...string) (string, error) {
	return runTool(filepath.Join(n.runtime, "ctr"),
		append([]string{"-a", n.containerdSocket(), "-n", "k8s.io"}, arguments...)...)
}

// killContainer sends SIGKILL to the first process of a container, like a crash. It uses only files of
// the node, because the API server may not be running.
func (n *Node) killContainer(t testing.TB, pod *corev1.Pod, container string) {
	t.Helper()
	if err := syscall.Kill(n.pidOf(t, pod, container), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// endContainers sends SIGKILL to the first process of every container, and waits until containerd has
// seen their end. Nothing of the pods runs then, as after a reboot.
func (n *Node) endContainers(t testing.TB) {
	t.Helper()
	waitFor(t, podRunningLimit, "all containers to end", func() (bool, string) {
		running, err := n.ctr("tasks", "list")
		for _, task := range n.tasks() {
			if pid, err := pidIn(filepath.Join(task, "init.pid")); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return err == nil && !strings.Contains(running, "RUNNING"), running
	})
}

// pidOf returns the process ID of the first process of a container.
func (n *Node) pidOf(t testing.TB, pod *corev1.Pod, container string) int {
	t.Helper()
	for _, task := range n.tasks() {
		config, _ := os.ReadFile(filepath.Join(task, "config.json"))
		if strings.Contains(string(config), string(pod.UID)) &&
			strings.Contains(string(config), fmt.Sprintf(`"io.kubernetes.cri.container-name":%q`, container)) {
			pid, err := pidIn(filepath.Join(task, "init.pid"))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("containerd runs no container %s of %s", container, pod.Name)
	return 0
}
