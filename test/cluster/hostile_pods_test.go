package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Those of extender/ledger/limits.h.
const (
	searchStepsPerMs = 1_000
	searchStepsSaved = 3_000_000
	searchStepsLeast = 5_000
	// score, why_not and fitting_nodes, for a filter that is delayed again and again.
	decisionsOfOneFilter = 10
)

// searchedPod has 17 containers, of which no card can take three; no two of these pods are equal, and the
// sums fit on 8 cards.
func searchedPod(namespace string, number int) *PodBuilder {
	pod := newPod(namespace, fmt.Sprintf("hostile-%03d", number))
	for i := range 17 {
		pod.share(1, 11000+i+20*number)
	}
	return pod
}

// kube-scheduler filters one pod at a time, and tries those that wait again with each change. Each of these
// pods takes a search on each node, which are all different; together they have the steps of one namespace.
func TestSearchesOfATenantTakeLittleTimeOfOthers(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	const nodes, hostile, ordinary = 100, 40, 50
	numbers := make([]int, nodes)
	for i := range numbers {
		numbers[i] = i
	}
	inParallel(numbers, func(number int) {
		shape := v100Node(cardsOfEachNode)
		shape.cpuMilli += int64(number)
		plane.createNodeOf(ctx, t, fmt.Sprintf("gpu-%05d", number), shape)
	})
	extender := plane.startExtender(t)
	extender.waitNodes(t, nodes)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	filters := func() float64 {
		return extender.metrics(t).with("mgpu_extender_verb_duration_seconds_count", `verb="filter"`)
	}
	began, before := time.Now(), extender.metrics(t).with("mgpu_extender_search_steps_total")
	var pods []*PodBuilder
	for i := range hostile {
		pods = append(pods, searchedPod(namespace, i))
	}
	createAll(ctx, t, pods)
	waitFor(t, time.Minute, "each hostile pod to be filtered", func() (bool, string) {
		return filters() >= hostile, fmt.Sprint(filters(), " calls of filter")
	})
	for i := range ordinary {
		create(ctx, t, newPod(namespace, fmt.Sprintf("ordinary-%02d", i)).share(1, 300))
		time.Sleep(50 * time.Millisecond)
	}
	waitBoundCount(ctx, t, namespace, ordinary)
	calls, steps := filters(), extender.metrics(t).with("mgpu_extender_search_steps_total")-before
	most := searchStepsSaved + searchStepsPerMs*float64(time.Since(began).Milliseconds()) +
		searchStepsLeast*decisionsOfOneFilter*calls
	t.Logf("%.0f calls of filter took %.0f steps, at most %.0f", calls, steps, most)
	if steps > most {
		t.Errorf("hostile pods took %.0f steps of searches, more than %.0f", steps, most)
	}
	if limited := extender.metrics(t).with("mgpu_extender_searches_limited_total"); limited == 0 {
		t.Error("no decision was limited, so that the test shows nothing")
	}
	inParallel(pods, func(pod *PodBuilder) { deleteNow(ctx, t, namespace, pod.pod.Name) })
}
