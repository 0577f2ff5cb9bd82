package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// specHas returns whether the CDI spec has the allocation of the pod.
func (w *NodeWorld) specHas(allocation string) (bool, string) {
	text, err := os.ReadFile(w.plugin.specFile())
	return err == nil && strings.Contains(string(text), allocation), string(text)
}

// startSecond starts another process of the plugin beside the one that runs, and returns the earlier one.
func (w *NodeWorld) startSecond(t testing.TB) *Process {
	t.Helper()
	old := w.plugin.process
	w.plugin.start(t)
	w.plugin.waitReady(t)
	t.Cleanup(old.Kill)
	return old
}

// A process that was replaced, or a backup, may put an earlier CDI spec back.
func TestNodeContainerRestartsAfterAnEarlierSpecWasPutBack(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	world.runningPods(t, "0")
	earlier, err := os.ReadFile(world.plugin.specFile())
	if err != nil {
		t.Fatal(err)
	}
	world.createBound(t, world.pod("two").share(10, 100), "1")
	two := world.waitRunning(t, "two")
	part := world.plugin.specFile() + ".part"
	if err := os.WriteFile(part, earlier, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, world.plugin.specFile()); err != nil {
		t.Fatal(err)
	}
	world.node.killContainer(t, two, "c0")
	world.checkView(t, world.waitRestarted(t, "two", 1))
}

// The earlier process knows nothing of the containers that the later one has started. It must not write
// the CDI spec without them when it collects the records of ended pods.
func TestNodeReplacedPluginLeavesTheContainersOfItsSuccessor(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	early := make([]*corev1.Pod, 3)
	for i := range early {
		world.createBound(t, world.pod(fmt.Sprint("early-", i)).share(10, 100), "0")
		early[i] = world.waitRunning(t, fmt.Sprint("early-", i))
	}
	old := world.startSecond(t)
	world.createBound(t, world.pod("late").share(10, 100), "1")
	late := world.waitRunning(t, "late")
	allocation := world.node.viewOf(t, late, "c0").environment["MGPU_ALLOCATION"]
	for _, pod := range early {
		ended := world.node.viewOf(t, pod, "c0").environment["MGPU_ALLOCATION"]
		if err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, podRunningLimit, fmt.Sprint("the record of ", pod.Name, " to be collected"), func() (bool, string) {
			has, text := world.specHas(ended)
			return !has, text
		})
		if has, text := world.specHas(allocation); !has {
			t.Fatalf("the spec is without the running container of late:\n%s", text)
		}
	}
	if code, ended := old.Terminate(endsIn); !ended || code != 0 {
		t.Errorf("the replaced process ended with %d (in time: %v)", code, ended)
	}
	world.plugin.waitReady(t)
	if has, text := world.specHas(allocation); !has {
		t.Errorf("the spec is without the running container of late:\n%s", text)
	}
	world.node.killContainer(t, late, "c0")
	world.checkView(t, world.waitRestarted(t, "late", 1))
}

// As the chart upgrades: the new process is ready before the old one ends. A pod that kubelet admits without a
// plugin fails for good.
func TestNodeUpgradeWithAnOverlapFailsNoPod(t *testing.T) {
	world := newNodeWorld(t, v100s(4))
	upgraded := make(chan bool)
	go func() {
		defer close(upgraded)
		for range 2 {
			mustEnd(t, world.startSecond(t))
		}
	}()
	// kubelet takes 110 pods. The pauses grow, so that the last of these would come after four minutes.
	const atLeast, atMost = 50, 100
	var names []string
	pause := 100 * time.Millisecond
	for done := false; len(names) < atLeast || !done; pause += pause / 20 {
		if len(names) == atMost {
			<-upgraded
			t.Fatal("the upgrades have not ended, so that no pod came after them")
		}
		name := fmt.Sprint("bound-", len(names))
		world.createBound(t, world.pod(name).share(1, 1), fmt.Sprint(len(names)%4))
		names = append(names, name)
		select {
		case <-upgraded:
			done = true
		case <-time.After(pause):
		}
	}
	failed := 0
	for _, name := range names {
		waitFor(t, podRunningLimit, name+" to run or fail", func() (bool, string) {
			pod := get(world.ctx, t, world.namespace, name)
			return allRun(pod) || pod.Status.Phase == corev1.PodFailed, statusOf(pod)
		})
		if pod := get(world.ctx, t, world.namespace, name); pod.Status.Phase == corev1.PodFailed {
			failed++
			t.Logf("%s: %s", name, statusOf(pod))
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d pods failed", failed, len(names))
	}
	world.checkViews(t, names...)
	world.plugin.waitOffered(t)
}
