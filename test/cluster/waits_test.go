package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Waits measures how long ordinary pods wait for a node beside pending pods of a tenant for which each node takes a
// search. kube-scheduler filters one pod at a time, and tries pending ones again with each change of the cluster.
type Waits struct {
	pairs    int
	tenant   Throughput // the pending pods
	ordinary Throughput
	extender *Extender
	programs map[string]*Process
	created  int // ordinary pods
}

const (
	waitsNodes       = 500
	waitsPods        = 100
	waitsInterval    = 100 * time.Millisecond
	tenantContainers = 17
)

// TestWaits runs only where MGPU_WAITS_PENDING is set; bench/waits.sh sets it. It checks no times.
func TestWaits(t *testing.T) {
	pending := numbersOf(t, "MGPU_WAITS_PENDING", "waits.sh", 1, 9999)
	pairs := numbersOf(t, "MGPU_WAITS_PAIRS", "waits.sh", 1, 99)[0]
	t.Run("nodes-of-one-shape", func(t *testing.T) { measureWaits(t, pairs, pending, 0) })
	t.Run("different-nodes", func(t *testing.T) { measureWaits(t, pairs, pending, 1) })
}

// measureWaits has nodes of which each has `more` milli-CPU more than the one before.
func measureWaits(t *testing.T, pairs int, pending []int, more int) {
	ctx := context.Background()
	waits := Waits{pairs: pairs, ordinary: Throughput{namespace: newNamespace(ctx, t)}}
	waits.tenant.namespace = waits.ordinary.namespace + "-tenant"
	if err := plane.createNamespace(ctx, waits.tenant.namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(waits.tenant.namespace) })
	numbers := make([]int, waitsNodes)
	for i := range numbers {
		numbers[i] = i
	}
	inParallel(numbers, func(number int) {
		shape := v100Node(cardsOfEachNode)
		shape.cpuMilli += int64(more * number)
		plane.createNodeOf(ctx, t, fmt.Sprintf("gpu-%05d", number), shape)
	})
	waits.extender = plane.startExtender(t)
	waits.extender.waitNodes(t, waitsNodes)
	waits.programs = map[string]*Process{"mgpu-extender": waits.extender.process, "kube-scheduler": plane.startScheduler(t,
		SchedulerSetup{configuration: shippedSetup, extenderURL: waits.extender.url()})}
	for _, count := range pending {
		waits.compare(ctx, t, count)
	}
}

// compare measures without and beside pending pods, in turn.
func (w *Waits) compare(ctx context.Context, t *testing.T, pending int) {
	t.Helper()
	var without, beside []float64
	for range w.pairs {
		without = append(without, w.measure(ctx, t, "alone"))
		before := w.extender.metrics(t)
		pods := make([]*PodBuilder, pending)
		for i := range pods {
			pods[i] = searchedPod(w.tenant.namespace, i)
		}
		createAll(ctx, t, pods)
		waitFor(t, throughputLimit, "each pending pod to be filtered", func() (bool, string) {
			calls := grown(before, w.extender.metrics(t), filterDuration+"_count", filterVerb)
			return calls >= float64(pending), fmt.Sprint(calls, " calls of filter")
		})
		beside = append(beside, w.measure(ctx, t, fmt.Sprint("beside ", pending)))
		w.tenant.removeAll(ctx, t)
	}
	slices.Sort(without)
	slices.Sort(beside)
	t.Logf("beside %d pods ordinary pods wait %.3f s, alone %.3f s (medians of %d)",
		pending, beside[w.pairs/2], without[w.pairs/2], w.pairs)
}

// measure returns the mean seconds from the creation of an ordinary pod until a watch shows that it is bound.
func (w *Waits) measure(ctx context.Context, t *testing.T, what string) float64 {
	t.Helper()
	before, used, began := w.extender.metrics(t), processorTimesOf(t, w.programs), time.Now()
	binds := w.ordinary.watchBinds(ctx, t)
	created := make(chan float64)
	go func() { created <- w.createOrdinary(ctx, t, began) }()
	sum := 0.0
	for _, bound := range binds.take(ctx, t, waitsPods, func(int) {}) {
		sum += bound.Sub(began).Seconds()
	}
	mean := (sum - <-created) / waitsPods
	after := w.extender.metrics(t)
	calls := grown(before, after, filterDuration+"_count", filterVerb)
	t.Logf("%-10s mean wait %6.3f s; %5.0f calls of filter, each %6.3f ms; %9.0f steps of searches", what, mean, calls,
		1000*grown(before, after, filterDuration+"_sum", filterVerb)/calls,
		grown(before, after, "mgpu_extender_search_steps_total"))
	for name, now := range processorTimesOf(t, w.programs) {
		t.Logf("%10s %s used %.2f s of CPU time", "", name, (now - used[name]).Seconds())
	}
	w.ordinary.removeAll(ctx, t)
	return mean
}

// createOrdinary returns the sum of the times of creation.
func (w *Waits) createOrdinary(ctx context.Context, t *testing.T, began time.Time) float64 {
	due := time.NewTicker(waitsInterval)
	defer due.Stop()
	sum := 0.0
	for range waitsPods {
		sum += time.Since(began).Seconds()
		pod := newPod(w.ordinary.namespace, fmt.Sprintf("ordinary-%05d", w.created)).share(1, 300).build()
		w.created++
		if _, err := plane.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		<-due.C
	}
	return sum
}

const (
	filterDuration = "mgpu_extender_verb_duration_seconds"
	filterVerb     = `verb="filter"`
)

func grown(before, after Metrics, name string, labels ...string) float64 {
	return after.with(name, labels...) - before.with(name, labels...)
}

// searchedPod has 17 containers, of which no card can take three; no two of these pods are equal, and the sums fit on
// 8 cards.
func searchedPod(namespace string, number int) *PodBuilder {
	pod := newPod(namespace, fmt.Sprintf("tenant-%05d", number))
	for i := range tenantContainers {
		pod.share(1, 11000+i+tenantContainers*number%1000)
	}
	return pod
}
