package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const sampledLimit = 60 * time.Second // several sampling periods of the plugin

// uses writes to the cards file how much memory of card 0 the first containers of the pods and a process
// outside of all pods use.
func (w *NodeWorld) uses(t testing.TB, memoryMiB map[*corev1.Pod]int64, otherMiB int64) {
	t.Helper()
	cards := v100s(1)
	cards[0].Processes = []TestProcess{{Pid: os.Getpid(), MemoryMiB: otherMiB}}
	for pod, memory := range memoryMiB {
		cards[0].Processes = append(cards[0].Processes,
			TestProcess{Pid: w.node.pidOf(t, pod, "c0"), MemoryMiB: memory, SMPercent: 20})
	}
	w.plugin.writeCards(t, cards)
}

func (w *NodeWorld) waitMetric(t testing.TB, want float64, name string, labels ...string) {
	t.Helper()
	waitFor(t, sampledLimit, fmt.Sprint(name, labels, " to be ", want), func() (bool, string) {
		got := w.plugin.metrics(t).with(name, labels...)
		return got == want, fmt.Sprint(got)
	})
}

func TestNodeReportsTheUsageOfEachContainer(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	for _, name := range []string{"modest", "greedy"} {
		world.createBound(t, world.pod(name).share(40, 8000), "0")
	}
	modest, greedy := world.waitRunning(t, "modest"), world.waitRunning(t, "greedy")
	world.uses(t, map[*corev1.Pod]int64{modest: 500, greedy: 7900}, 100)
	for _, pod := range []*corev1.Pod{modest, greedy} {
		of := []string{fmt.Sprintf("pod=%q", pod.Name), fmt.Sprintf("namespace=%q", pod.Namespace)}
		world.waitMetric(t, 8000<<20, "mgpu_container_memory_limit_bytes", of...)
		world.waitMetric(t, 0.4, "mgpu_container_core_limit_ratio", of...)
		world.waitMetric(t, 0.2, "mgpu_container_sm_utilization_ratio", of...)
		world.waitMetric(t, 0.5, "mgpu_container_core_usage_ratio", of...)
		world.waitMetric(t, 1, "mgpu_container_processes", of...)
	}
	world.waitMetric(t, 500<<20, "mgpu_container_memory_used_bytes", `pod="modest"`)
	world.waitMetric(t, 7900<<20, "mgpu_container_memory_used_bytes", `pod="greedy"`)
	world.waitMetric(t, 16000<<20, "mgpu_card_memory_allocated_bytes")
	world.waitMetric(t, 100<<20, "mgpu_unmanaged_memory_bytes")

	world.uses(t, map[*corev1.Pod]int64{modest: 500, greedy: 9000}, 100)
	world.waitMetric(t, 1, "mgpu_container_over_limit_total", `pod="greedy"`)
	waitFor(t, sampledLimit, "an event on the pod that uses too much", func() (bool, string) {
		said := pluginEventsOf(world.ctx, greedy)
		return strings.Contains(said, "uses 9000 MiB of card 0 and holds 8000 MiB"), said
	})
	if said := pluginEventsOf(world.ctx, modest); said != "" {
		t.Errorf("the modest pod has the event %s", said)
	}
	world.checkSame(t, []*corev1.Pod{modest, greedy})
}

func TestNodeEvictsPodsOverTheirMemory(t *testing.T) {
	world := newNodeWorld(t, v100s(1), "--enforce", "evict")
	for _, name := range []string{"modest", "greedy"} {
		world.createBound(t, world.pod(name).share(40, 8000), "0")
	}
	modest, greedy := world.waitRunning(t, "modest"), world.waitRunning(t, "greedy")
	world.uses(t, map[*corev1.Pod]int64{modest: 8000, greedy: 9000}, 1)
	waitFor(t, sampledLimit, "the greedy pod to be evicted", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(world.namespace).Get(world.ctx, greedy.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	world.checkSame(t, []*corev1.Pod{modest})
	world.createBound(t, world.pod("next").share(60, 20000), "0")
	world.checkViews(t, "next")
}
