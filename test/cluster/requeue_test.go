package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lateBy is longer than any delay of a rejection. Several times as long, kube-scheduler tries a pod before the
// extender sees what has changed also on a busy machine.
const lateBy = time.Second

// newLateWorld returns a world with one node. Its extender receives changes of pods and nodes later
// than kube-scheduler does.
func newLateWorld(t *testing.T, by time.Duration, flags ...string) *World {
	t.Helper()
	late := plane.startLateWatches(t, by)
	world := &World{ctx: context.Background(), extender: plane.extenderOn(t, "http", http.DefaultClient, flags...)}
	world.extender.follow(late.kubeconfig(t, extenderToken))
	world.extender.start(t)
	world.extender.waitReady(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", 1)
	world.extender.waitNodes(t, 1)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

// strand deletes a bound pod, so that kube-scheduler tries a pending pod too early.
func (w *World) strand(t *testing.T, full, waiting string) {
	t.Helper()
	create(w.ctx, t, w.pod(waiting).share(60, 8000))
	waitPending(w.ctx, t, w.namespace, waiting, coreShort)
	deleteNow(w.ctx, t, w.namespace, full)
}

func TestAPendingPodIsRequeuedAfterALateDeletion(t *testing.T) {
	for _, by := range []time.Duration{3 * lateBy, 7 * lateBy} {
		t.Run(by.String(), func(t *testing.T) {
			world := newLateWorld(t, by)
			full := world.fillEachCard(t, 60)
			for round, name := range full[:2] {
				waiting := fmt.Sprint("waiting-", round)
				world.strand(t, name, waiting)
				waitBound(world.ctx, t, world.namespace, waiting)
			}
			if world.extender.metrics(t).with("mgpu_extender_requeues_total", `result="requeued"`) == 0 {
				t.Error("the pods were bound without a requeue, so they were not late")
			}
			world.history.check(world.ctx, t)
		})
	}
}

// kube-scheduler tries a pod that no card would fit when it sees other cards, which the extender does not know yet.
func TestAPendingPodIsRequeuedAfterLateCards(t *testing.T) {
	world := newLateWorld(t, 7*lateBy)
	create(world.ctx, t, world.pod("waiting").share(60, 8000).annotation(domain+"/gpu-model", "H200"))
	waitPending(world.ctx, t, world.namespace, "waiting", "the cards are V100")
	shape := v100Node(cardsOfEachNode)
	shape.model = "H200"
	annotation, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{cardsKey: shape.cardsAnnotation(world.nodes[0])}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.admin.CoreV1().Nodes().Patch(world.ctx, world.nodes[0], types.MergePatchType, annotation, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitBound(world.ctx, t, world.namespace, "waiting")
	if world.extender.metrics(t).with("mgpu_extender_requeues_total", `result="requeued"`) == 0 {
		t.Error("the pod was bound without a requeue, so the cards were not late")
	}
	world.history.check(world.ctx, t)
}

func TestRequeueWithoutTheRightIsLoggedAndCounted(t *testing.T) {
	world := newLateWorld(t, 7*lateBy, "--requeue-namespace", "default")
	full := world.fillEachCard(t, 60)
	world.strand(t, full[0], "waiting")
	waitFor(t, time.Minute, "a requeue to be refused", func() (bool, string) {
		refused := world.extender.metrics(t).with("mgpu_extender_requeues_total", `result="refused"`)
		return refused > 1, fmt.Sprint(refused)
	})
	log := world.extender.process.logTail(1000)
	if logged := strings.Count(log, "pods cannot be requeued"); logged != 1 || !strings.Contains(log, "the Role mgpu-extender") {
		t.Errorf("logged %d times, want once with a remedy:\n%s", logged, log)
	}
	// After any other event kube-scheduler tries the pod again.
	_, err := plane.admin.CoreV1().Pods(world.namespace).Patch(world.ctx, "waiting", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"touched":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitBound(world.ctx, t, world.namespace, "waiting")
	world.history.check(world.ctx, t)
}

// pool adds a label to a node.
func pool(ctx context.Context, t *testing.T, node, pool string) {
	t.Helper()
	_, err := plane.admin.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"pool":%q}}}`, pool), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// besideRunning requires a pool in which a pod with the label app=runs is. No extender can see that from the message.
func (b *PodBuilder) besideRunning() *PodBuilder {
	b.pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "pool",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "runs"}}}}}}
	return b
}

// kube-scheduler examines 100 of the 130 nodes of a pool for each pod. Each has 80 % free, and no card has 50 %. The only
// node with a free card is one that its own filters exclude. Every pod searches for it separately.
func TestAClusterWhereNothingHappensIsQuiet(t *testing.T) {
	const nodes, pods = 130, 100
	world := newWorld(t, 0)
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("a-%03d", i))
	}
	inParallel(names, func(name string) {
		plane.createNodeOf(world.ctx, t, name, v100Node(2))
		pool(world.ctx, t, name, "a")
	})
	plane.createNodeOf(world.ctx, t, "b-000", v100Node(2))
	pool(world.ctx, t, "b-000", "b")
	var placed []placedPod
	for _, node := range names {
		for card := range 2 {
			pod := newPod(world.namespace, fmt.Sprintf("runs-%s-%d", node, card)).share(60, 8000)
			pod.pod.Labels = map[string]string{"app": "runs"}
			placed = append(placed, placedPod{pod, node, map[string]string{"c0": fmt.Sprint(card)}})
		}
	}
	place(world.ctx, t, world.namespace, placed)
	world.extender.waitNodes(t, nodes+1)
	var waiting []*PodBuilder
	for i := range pods {
		waiting = append(waiting, world.pod(fmt.Sprintf("waits-%03d", i)).share(50, 8000).besideRunning())
	}
	createAll(world.ctx, t, waiting)
	const filter, requeued = "mgpu_extender_verb_duration_seconds_count", "mgpu_extender_requeues_total"
	calls := func() float64 { return world.extender.metrics(t).with(filter, `verb="filter"`) }
	requeues := func() float64 { return world.extender.metrics(t).with(requeued, `result="requeued"`) }
	waitFor(t, 3*time.Minute, "each pod to be tried", func() (bool, string) {
		return calls() >= pods && requeues() > 0, fmt.Sprint(calls(), " calls, ", requeues(), " requeues")
	})
	var before []float64
	// A group may search again after a minute, and kube-scheduler tries all pods again after five.
	waitFor(t, 4*time.Minute, "75 seconds without a call of filter and a requeue", func() (bool, string) {
		before = []float64{calls(), requeues()}
		time.Sleep(75 * time.Second)
		after := []float64{calls(), requeues()}
		return slices.Equal(before, after), fmt.Sprint(after, ", 75 seconds before ", before)
	})
	t.Logf("%v calls of filter and %v requeues for %d pods", before[0], before[1], pods)
}
