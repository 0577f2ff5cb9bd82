package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// waitAllocated waits until kubelet has the response of the next Allocate, and returns its record. A pod
// whose Allocate fails is rejected permanently.
func (p *DevicePlugin) waitAllocated(t testing.TB, before []string, pod *corev1.Pod) string {
	t.Helper()
	record := ""
	err := pollEvery(time.Millisecond, podRunningLimit, "an allocation", func() (bool, string) {
		now := p.records()
		at := slices.IndexFunc(now, func(file string) bool { return !slices.Contains(before, file) })
		if at < 0 {
			return false, "none"
		}
		record = now[at]
		checkpoint, _ := os.ReadFile(p.node.checkpoint())
		return strings.Contains(string(checkpoint), string(pod.UID)), record
	})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func isBound(record string) bool {
	text, _ := os.ReadFile(record)
	return strings.Contains(string(text), `"owner"`)
}

// The plugin is killed at several points while a pod starts.
func TestNodePluginKilledWhileAPodStarts(t *testing.T) {
	world := newNodeWorld(t, v100s(4), "--settle-ms", "1500")
	plugin := world.plugin
	killed := map[string]string{"between-allocate-and-prestart": "0", "before-the-answer": "1"}
	begin := func(name string) (record string) {
		before := plugin.records()
		pod := world.createBound(t, world.pod(name).share(50, 8000), killed[name])
		return plugin.waitAllocated(t, before, pod)
	}
	crash := func(name string, bound bool, record string) {
		plugin.kill()
		if isBound(record) != bound {
			t.Errorf("%s: the record is bound: %v, want %v", name, !bound, bound)
		}
	}

	record := begin("between-allocate-and-prestart")
	crash("between-allocate-and-prestart", false, record)
	plugin.startAgain(t)

	record = begin("before-the-answer")
	waitFor(t, podRunningLimit, "the record to be written", func() (bool, string) { return isBound(record), record })
	crash("before-the-answer", true, record)
	plugin.startAgain(t)

	for name := range killed {
		pod := world.waitRunning(t, name)
		world.checkView(t, pod)
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%s was restarted %d times", name, restarts)
		}
	}
	if count := len(plugin.records()); count != len(killed) {
		t.Errorf("%d records of %d pods", count, len(killed))
	}
}

// runningPods creates a pod on each card, and returns the pods when they run.
func (w *NodeWorld) runningPods(t testing.TB, cards ...string) []*corev1.Pod {
	t.Helper()
	pods := make([]*corev1.Pod, len(cards))
	for _, card := range cards {
		w.createBound(t, w.pod("running-"+card).share(40, 8000), card)
	}
	for i, card := range cards {
		pods[i] = w.waitRunning(t, "running-"+card)
		w.checkView(t, pods[i])
	}
	return pods
}

// checkUnaffected checks that no container was restarted, and that new pods and restarted containers get the
// right cards.
func (w *NodeWorld) checkUnaffected(t testing.TB, pods []*corev1.Pod, card string) {
	t.Helper()
	name := "after-" + card
	w.createBound(t, w.pod(name).share(20, 4000), card)
	w.checkViews(t, name)
	w.checkSame(t, pods)
	w.node.killContainer(t, pods[0], "c0")
	w.checkView(t, w.waitRestarted(t, pods[0].Name, pods[0].Status.ContainerStatuses[0].RestartCount+1))
}

// checkSame checks that the same containers run.
func (w *NodeWorld) checkSame(t testing.TB, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if after := w.waitRunning(t, pod.Name); !sameContainers(pod, after) {
			t.Errorf("%s: containers were %+v, are %+v", pod.Name, pod.Status.ContainerStatuses,
				after.Status.ContainerStatuses)
		}
	}
}

func TestNodePluginKilledWhileContainersRun(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.plugin.kill()
	waitFor(t, 30*time.Second, "kubelet to notice", func() (bool, string) {
		core := world.node.object(t).Status.Allocatable[coreResource]
		return core.IsZero(), core.String()
	})
	world.plugin.startAgain(t)
	world.checkUnaffected(t, pods, "2")
}
