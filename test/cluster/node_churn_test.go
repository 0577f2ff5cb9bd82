package cluster

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	churnPods   = 60
	reuseRounds = 12
)

// All devices but two are in use, so kubelet allocates these two again and again, to pods on different
// cards.
func TestNodeReusedDevicesGetTheCardOfTheirNewPod(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	for _, card := range []string{"0", "1"} {
		world.createBound(t, world.pod("filler-"+card).share(99, 20000), card)
	}
	world.checkViews(t, "filler-0", "filler-1")
	last := map[string]string{} // hash of devices to card
	moved := 0
	for round := range reuseRounds {
		a, b := fmt.Sprint("a-", round), fmt.Sprint("b-", round)
		world.createBound(t, world.pod(a).share(1, 300), fmt.Sprint(round%2))
		world.createBound(t, world.pod(b).share(1, 300), fmt.Sprint((round+1)%2))
		for _, name := range []string{a, b} {
			pod := world.waitRunning(t, name)
			world.checkView(t, pod)
			view := world.node.viewOf(t, pod, "c0")
			hash, card := view.environment["MGPU_DEVICES_HASH"], view.environment["MGPU_CARDS"]
			if before, seen := last[hash]; seen && before != card {
				moved++
			}
			last[hash] = card
		}
		if moved >= 3 && round >= 3 {
			break
		}
		world.removeNow(t, a, b)
	}
	if len(last) != 2 || moved == 0 {
		t.Errorf("%d sets of devices, %d times on another card; want 2, and some", len(last), moved)
	}
	t.Logf("devices went to a pod on the other card %d times", moved)
}

// removeNow deletes pods without a grace period, and waits until they are gone.
func (w *NodeWorld) removeNow(t testing.TB, names ...string) {
	t.Helper()
	soon := int64(1)
	for _, name := range names {
		err := plane.admin.CoreV1().Pods(w.namespace).Delete(w.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &soon})
		if err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, podsGoneLimit, fmt.Sprint(names, " to be gone"), func() (bool, string) {
		for _, name := range names {
			if _, err := plane.admin.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{}); err == nil {
				return false, name
			}
		}
		return true, ""
	})
}

// In each round, new pods are created while those of the previous round are deleted, in random order.
// churnRounds returns how often all pods are created and deleted.
func churnRounds() int {
	if nodeTestsMayBeSlow() {
		return 3
	}
	return 1
}

func TestNodeCreatesAndDeletesManyPods(t *testing.T) {
	world := newScheduledWorld(t, v100s(8))
	random := rand.New(rand.NewSource(1))
	var before []string
	for round := range churnRounds() {
		begin := time.Now()
		var builders []*PodBuilder
		for i := range churnPods {
			builders = append(builders, churnPod(world, fmt.Sprintf("r%d-%02d", round, i), random))
		}
		createAll(world.ctx, t, builders)
		random.Shuffle(len(before), func(i, j int) { before[i], before[j] = before[j], before[i] })
		world.removeNow(t, before...)
		before = nil
		for _, builder := range builders {
			before = append(before, builder.pod.Name)
		}
		world.checkViews(t, before...)
		t.Logf("round %d: %d pods in %v", round, churnPods, time.Since(begin).Round(time.Millisecond))
	}
	world.logPlugin(t)
}

// churnPod returns a small pod: 60 of them and 60 terminating ones fit on 8 cards.
func churnPod(world *NodeWorld, name string, random *rand.Rand) *PodBuilder {
	builder := world.pod(name).share(2+random.Intn(4), 300+random.Intn(1500))
	switch random.Intn(6) {
	case 0:
		builder.initShare(1+random.Intn(5), 300+random.Intn(1000))
	case 1:
		builder.share(1+random.Intn(3), 300)
	}
	return builder.runs()
}

// logPlugin logs the durations of the plugin's calls, and how often the runtime had not read its files.
func (w *NodeWorld) logPlugin(t testing.TB) {
	t.Helper()
	metrics := w.plugin.metrics(t)
	const allocate, start = "mgpu_plugin_allocate_duration_seconds", "mgpu_plugin_prestart_duration_seconds"
	started := `result="started"`
	t.Logf("Allocate: %.0f calls, p50 %.2f ms, p99 %.2f ms", metrics.with(allocate+"_count"),
		1000*metrics.percentile(allocate, 0.5), 1000*metrics.percentile(allocate, 0.99))
	t.Logf("PreStart: %.0f started, p50 %.1f ms, p99 %.1f ms, %.0f rejected", metrics.with(start+"_count", started),
		1000*metrics.percentile(start, 0.5, started), 1000*metrics.percentile(start, 0.99, started),
		metrics.with(start+"_count", `result="refused"`))
	t.Logf("containers that the runtime rejected because it had not read their device yet: %d", w.misses(t))
	t.Logf("resident memory %.1f MiB", metrics.with("process_resident_memory_bytes")/(1<<20))
}

// misses counts the events about CDI names that could not be resolved.
func (w *NodeWorld) misses(t testing.TB) int {
	t.Helper()
	events, err := plane.admin.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, event := range events.Items {
		if strings.Contains(event.Message, "unresolvable CDI devices") {
			count += int(max(1, event.Count))
		}
	}
	return count
}
