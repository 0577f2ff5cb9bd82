package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newMPSWorld returns a world with one card, whose shares MPS limits, and the folder of the card's daemon.
// NVIDIA's MPS control program is a stand-in (test/gpu/mps_control.cc).
func newMPSWorld(t testing.TB, flags ...string) (*NodeWorld, string) {
	t.Helper()
	realNode(t) // skips the test where no node can run
	control := mpsControlBinary(t)
	// The path of a socket has at most 107 bytes.
	run, err := os.MkdirTemp("/run", "mgpu-test")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(run, "mps", v100(0).UUID)
	t.Cleanup(func() {
		var pid, started int
		text, _ := os.ReadFile(filepath.Join(folder, "daemon"))
		if _, err := fmt.Sscan(string(text), &pid, &started); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = os.RemoveAll(run)
	})
	flags = append([]string{"--isolation", "mps", "--mps-control", control, "--run-dir", run}, flags...)
	return newNodeWorld(t, v100s(1), flags...), folder
}

func killDaemonOf(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "daemon"))
	var daemon int
	if _, scanned := fmt.Sscan(string(text), &daemon); err != nil || scanned != nil || daemon <= 1 {
		t.Fatalf("the file of the daemon has %q: %v", text, err)
	}
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A program that ignores SIGTERM is killed at the end of its grace period. Until then it must not be a client
// any more, and its neighbour on the card stays one.
func TestNodeEndsClientsOfMPSBeforeTheirContainerIsKilled(t *testing.T) {
	world, folder := newMPSWorld(t)
	for _, name := range []string{"ends", "stays"} {
		world.createBound(t, world.pod(name).share(30, 1024).ignoringTermination(), "0")
	}
	ends, stays := world.waitRunning(t, "ends"), world.waitRunning(t, "stays")
	client, neighbour := world.node.pidOf(t, ends, "c0"), world.node.pidOf(t, stays, "c0")
	world.uses(t, map[*corev1.Pod]int64{ends: 500, stays: 500}, 1)
	for _, pod := range []*corev1.Pod{ends, stays} {
		world.waitMetric(t, 1, "mgpu_container_processes", fmt.Sprintf("pod=%q", pod.Name))
	}
	behaviour := filepath.Join(folder, "behaviour")
	text := fmt.Sprintf("clients %d %d\n", neighbour, client)
	if err := os.WriteFile(behaviour+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(behaviour+".new", behaviour); err != nil {
		t.Fatal(err)
	}
	calls := func() string {
		text, _ := os.ReadFile(filepath.Join(folder, "calls"))
		return string(text)
	}
	if got := calls(); strings.Contains(got, "terminate_client") {
		t.Fatalf("a client was ended before its pod was deleted: %s", got)
	}

	err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, "ends", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, sampledLimit, "the client to be ended", func() (bool, string) {
		got := calls()
		return strings.Contains(got, fmt.Sprintf("terminate_client 4242 %d\n", client)), got
	})
	if err := syscall.Kill(client, 0); err != nil {
		t.Errorf("the process of the client had ended before: %v", err)
	}
	if got := calls(); strings.Count(got, "terminate_client") != 1 {
		t.Errorf("the daemon got the command %s, want that one client is ended", got)
	}
	world.checkSame(t, []*corev1.Pod{stays})
}

// NVIDIA's daemon has a FIFO beside its sockets that every user may write, which stops it, and a socket for the
// commands of root. A read-only mount prevents neither.
func TestNodeContainersReachOnlyTheSocketForClientsOfMPS(t *testing.T) {
	world, folder := newMPSWorld(t)
	world.createBound(t, world.pod("app").share(30, 1024), "0")
	pod := world.waitRunning(t, "app")
	for _, name := range []string{"control_privileged", "log"} {
		if _, err := os.Lstat(filepath.Join(folder, "pipe", name)); err != nil {
			t.Fatal(err)
		}
	}
	if options := world.node.viewOf(t, pod, "c0").mounts["/run/mgpu/mps"]; !strings.HasPrefix(options, "ro,") {
		t.Errorf("the folder of MPS is mounted with %q, want that it is read-only", options)
	}
	inside := fmt.Sprintf("/proc/%d/root/run/mgpu/mps", world.node.pidOf(t, pod, "c0"))
	checkSees := func() {
		t.Helper()
		entries, err := os.ReadDir(inside)
		if err != nil || len(entries) != 1 || entries[0].Name() != "control" {
			t.Errorf("the container sees %v (%v), want the socket \"control\" alone", entries, err)
		}
	}
	checkSees()

	killDaemonOf(t, folder)
	waitFor(t, sampledLimit, "the container that runs to see the next daemon", func() (bool, string) {
		connection, err := net.Dial("unixpacket", filepath.Join(inside, "control"))
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
	checkSees()
	world.checkSame(t, []*corev1.Pod{pod})
}

// mpsGives returns what a client that connects to the socket in this folder is told.
func mpsGives(folder string) (string, error) {
	connection, err := net.Dial("unixpacket", filepath.Join(folder, "control"))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	part := make([]byte, 64)
	if _, err := connection.Read(part); err != nil { // its greeting
		return "", err
	}
	if _, err := connection.Write([]byte("client 4711\n")); err != nil {
		return "", err
	}
	count, err := connection.Read(part)
	return strings.TrimSpace(string(part[:count])), err
}

// A daemon of a driver from R615 on has a namespace for each container, with limits that its programs cannot
// raise. It has them again after its end, and no more once the container has ended.
func TestNodeContainersOfMPSHaveNamespaces(t *testing.T) {
	behaviour := filepath.Join(t.TempDir(), "behaviour")
	if err := os.WriteFile(behaviour, []byte("v3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MGPU_FAKE_MPS", behaviour)
	world, folder := newMPSWorld(t)
	world.createBound(t, world.pod("small").share(30, 1024), "0")
	world.createBound(t, world.pod("large").share(60, 2048), "0")
	pods := []*corev1.Pod{world.waitRunning(t, "small"), world.waitRunning(t, "large")}
	inside := func(pod *corev1.Pod) string {
		return fmt.Sprintf("/proc/%d/root/run/mgpu/mps", world.node.pidOf(t, pod, "c0"))
	}
	waitLimits := func() {
		t.Helper()
		for i, want := range []string{"ok 30.00 1024", "ok 60.00 2048"} {
			waitFor(t, sampledLimit, "container "+pods[i].Name+" to have its limits", func() (bool, string) {
				got, err := mpsGives(inside(pods[i]))
				return got == want, fmt.Sprintf("%q (%v)", got, err)
			})
			entries, err := os.ReadDir(inside(pods[i]))
			if err != nil || len(entries) != 1 {
				t.Errorf("the container sees %v (%v), want the socket of its namespace alone", entries, err)
			}
		}
	}
	waitLimits()
	killDaemonOf(t, folder)
	waitLimits()
	world.checkSame(t, pods)
	shares := func() int {
		entries, _ := os.ReadDir(filepath.Join(folder, "shares"))
		return len(entries)
	}
	if got := shares(); got != 2 {
		t.Errorf("there are %d namespaces, want 2", got)
	}
	err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, "small", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, sampledLimit, "the namespace of the deleted pod to be removed", func() (bool, string) {
		return shares() == 1, fmt.Sprintf("%d namespaces", shares())
	})
}

// After a restart kubelet starts containers without PreStartContainer until the plugin has registered. Without a
// daemon CUDA would run outside of MPS, and without limits.
func TestNodeStartsNoContainerOfMPSWithoutPluginAndDaemon(t *testing.T) {
	world, folder := newMPSWorld(t)
	world.createBound(t, world.pod("app").share(30, 2000), "0")
	pod := world.waitRunning(t, "app")
	world.plugin.kill()
	killDaemonOf(t, folder)
	world.node.kubelet.Kill()
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := world.node.waitReady(); err != nil {
		t.Fatal(err)
	}
	world.node.killContainer(t, pod, "c0")
	waitFor(t, podRunningLimit, "kubelet to try to start the container", func() (bool, string) {
		now := get(world.ctx, t, world.namespace, "app")
		if allRun(now) && now.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Fatalf("the container runs without a daemon: %s", world.node.viewOf(t, now, "c0"))
		}
		status := statusOf(now) + eventsOf(world.ctx, now)
		return strings.Contains(status, "mgpu-set-limits: MPS does not run"), status
	})
	world.plugin.startAgain(t)
	waitFor(t, 2*podRunningLimit, "the container to run with the next daemon", func() (bool, string) {
		now := get(world.ctx, t, world.namespace, "app")
		return allRun(now) && now.Status.ContainerStatuses[0].RestartCount > 0, statusOf(now)
	})
}

// The daemon needs the socket, so that nothing prevents it.
func TestNodeNamesThePodThatBlocksMPS(t *testing.T) {
	world, _ := newMPSWorld(t)
	world.createBound(t, world.pod("idle").share(30, 2000), "0")
	pod := world.waitRunning(t, "idle")
	container := world.node.pidOf(t, pod, "c0")
	path := fmt.Sprintf("/proc/%d/root/run/mgpu/mps/control", container)
	blocker := exec.Command("perl", "-e", `use Socket; <STDIN>; socket(my $f, PF_UNIX, SOCK_SEQPACKET, 0);
		connect($f, sockaddr_un($ARGV[0])) or die $!; <STDIN>`, path)
	input, err := blocker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := blocker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = blocker.Wait() })
	enterCgroupOf(t, container, blocker.Process.Pid)
	if _, err := fmt.Fprintln(input, "connect"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, podRunningLimit, "an Event on the pod", func() (bool, string) {
		events := pluginEventsOf(world.ctx, pod)
		return strings.Contains(events, "MGPUMPSBlocked") &&
			strings.Contains(events, fmt.Sprintf("process %d ", blocker.Process.Pid)), events
	})
}

// enterCgroupOf moves a process into the cgroup, or the cgroups of version 1, of another one.
func enterCgroupOf(t *testing.T, of, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", of))
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		folder := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(fields[1], "name="), fields[2], "cgroup.procs")
		if os.WriteFile(folder, []byte(fmt.Sprint(pid)), 0o644) == nil {
			moved++
		}
	}
	if moved == 0 {
		t.Fatalf("the process could not be moved into any of %s", text)
	}
}

// The extender reads what MPS cannot limit from the annotation of the node.
func TestNodeWithMPSGetsOnlyPodsThatMPSCanLimit(t *testing.T) {
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	world, _ := newMPSWorld(t)
	extender.waitCards(t, v100s(1))
	const tooSmall = "node(s) required a larger share of a card"
	for name, refused := range map[string]struct {
		pod    *PodBuilder
		reason string
	}{
		"too-little-compute": {world.pod("").share(2, 2000), tooSmall},
		"too-little-memory":  {world.pod("").share(30, 1000), tooSmall},
		"several-parts": {world.pod("").share(60, 4000).annotation(multipleGPUKey, "2"),
			"node(s) could not run parts of several cards, which MPS cannot limit"},
	} {
		refused.pod.pod.Name = name
		create(world.ctx, t, refused.pod)
		waitPending(world.ctx, t, world.namespace, name, refused.reason)
	}
	create(world.ctx, t, world.pod("least").share(3, 1024).runs())
	world.waitRunning(t, "least")
}
