package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestNodeKubeletKilledAndStartedAgain(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.node.kubelet.Kill()
	world.plugin.started = time.Now()
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	world.plugin.waitReady(t)
	world.plugin.waitOffered(t)
	world.checkUnaffected(t, pods, "2")
}

func TestNodeContainerdKilledAndStartedAgain(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.node.containerd.Kill()
	if err := world.node.startContainerd(); err != nil {
		t.Fatal(err)
	}
	if err := world.node.waitReady(); err != nil {
		t.Fatal(err)
	}
	world.checkUnaffected(t, pods, "2")
}

// After a reboot kubelet admits its pods again, mostly before the plugin has registered. It rejects those
// with cards (kubernetes/kubernetes#128043), and no device plugin can prevent that. Their cards must be
// free for the pods that replace them.
func TestNodePodsThatAreRejectedAfterARebootLeaveTheirCards(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	world.createBound(t, world.pod("before").share(100, 32510), "0")
	world.waitRunning(t, "before")
	world.plugin.kill()
	world.node.kubelet.Kill()
	world.node.endContainers(t)
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, podRunningLimit, "kubelet to reject the pod", func() (bool, string) {
		pod := get(world.ctx, t, world.namespace, "before")
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "UnexpectedAdmissionError", statusOf(pod)
	})
	world.plugin.start(t)
	world.plugin.waitReady(t)
	world.plugin.waitOffered(t)
	world.createBound(t, world.pod("after").share(100, 32510), "0")
	world.checkViews(t, "after")
}

func TestNodePluginUpgradeTakesOverTheSockets(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	old := world.plugin.process
	world.plugin.start(t) // while the old process runs, as in a rolling update
	world.plugin.waitReady(t)
	if code, ended := old.Terminate(endsIn); !ended || code != 0 {
		t.Errorf("the old process ended with %d (in time: %v)", code, ended)
	}
	world.plugin.waitReady(t)
	world.plugin.waitOffered(t)
	world.checkUnaffected(t, pods, "2")
	// Once for each process: the end of the old stream did not make kubelet drop the new process.
	if log := world.plugin.logText(); strings.Count(log, "device plugin registered") != 2 {
		t.Errorf("kubelet dropped the new process:\n%s", log)
	}
	world.plugin.kill()
	waitFor(t, 2*time.Minute, "kubelet to notice the end of the new process", func() (bool, string) {
		core := world.node.object(t).Status.Allocatable[coreResource]
		return core.IsZero(), core.String()
	})
}

func TestNodeCrashedContainerGetsItsCardAgain(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.runningPods(t, "1")[0]
	first := world.node.viewOf(t, pod, "c0")
	world.node.killContainer(t, pod, "c0")
	pod = world.waitRestarted(t, pod.Name, 1)
	second := world.node.viewOf(t, pod, "c0")
	if second.environment["MGPU_ALLOCATION"] != first.environment["MGPU_ALLOCATION"] {
		t.Errorf("another allocation: %v, then %v", first, second)
	}
	world.checkView(t, pod)
}

// Kubelet restarts a crashed container without the API server, and so does a plugin that was just
// started.
func TestNodeCrashedContainerGetsItsCardWithoutTheAPIServer(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.runningPods(t, "1")[0]
	plane.apiServer.Kill()
	t.Cleanup(func() { startAPIServerAgain(t) })
	before := world.node.startsOf(pod, "c0")
	world.node.killContainer(t, pod, "c0")
	world.waitStarted(t, pod, before+1)
	world.checkView(t, pod)

	world.plugin.kill()
	world.plugin.start(t)
	world.node.killContainer(t, pod, "c0")
	world.waitStarted(t, pod, before+2)
	world.checkView(t, pod)

	startAPIServerAgain(t)
	world.checkView(t, world.waitRestarted(t, pod.Name, 2))
	world.plugin.waitReady(t)
}

// waitStarted waits until the pod has started this number of times. It does not use the API server.
func (w *NodeWorld) waitStarted(t testing.TB, pod *corev1.Pod, count int) {
	t.Helper()
	waitFor(t, podRunningLimit, fmt.Sprint(pod.Name, " to have started ", count, " times"), func() (bool, string) {
		now := w.node.startsOf(pod, "c0")
		return now >= count, fmt.Sprint(now, " ", w.plugin.process.logTail(3))
	})
}

// startAPIServerAgain starts the API server unless it runs.
func startAPIServerAgain(t testing.TB) {
	t.Helper()
	if plane.apiServer.running() {
		return
	}
	if err := plane.startAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := plane.waitReady(time.Minute); err != nil {
		t.Fatal(err)
	}
}
