package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// newPreemptionWorld returns a world with one node, and creates priority classes.
func newPreemptionWorld(t *testing.T, shape NodeShape) *World {
	t.Helper()
	world := newWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", shape)
	world.nodes = []string{"gpu-00"}
	world.extender.waitNodes(t, 1)
	for name, value := range map[string]int32{"low": 1, "high": 1000} {
		createPriorityClass(world.ctx, t, name, value)
	}
	return world
}

// bind creates a pod and returns its cards.
func (w *World) bind(t *testing.T, pod *PodBuilder) string {
	t.Helper()
	create(w.ctx, t, pod)
	return waitBound(w.ctx, t, w.namespace, pod.pod.Name).Annotations[indexKeyPrefix+"c0"]
}

// waitNominated waits until kube-scheduler has evicted pods for this one, and returns the victims.
func (w *World) waitNominated(t *testing.T, pod string) []string {
	t.Helper()
	var victims []string
	waitFor(t, time.Minute, pod+" to be nominated", func() (bool, string) {
		victims = w.terminating(t)
		preemptor := get(w.ctx, t, w.namespace, pod)
		return preemptor.Status.NominatedNodeName != "" && len(victims) > 0, scheduledCondition(preemptor)
	})
	return victims
}

func (w *World) terminating(t *testing.T) []string {
	t.Helper()
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// There are two pods of 50 % on each card. The two pods of priority 1 are on different cards, so
// evicting them would release 100 % in total, but no whole card.
func TestPreemptionReleasesAWholeCard(t *testing.T) {
	world := newWorld(t, 1)
	for name, value := range map[string]int32{"cheap": 1, "middle": 50, "high": 1000} {
		createPriorityClass(world.ctx, t, name, value)
	}
	cards := map[string]string{} // by pod
	cheap := []string{}
	for i := range 2 * cardsOfEachNode {
		name, class := fmt.Sprint("half-", i), "middle"
		if i == 0 || i == 2 {
			class = "cheap"
			cheap = append(cheap, name)
		}
		create(world.ctx, t, world.pod(name).priorityClass(class).share(50, 8000).annotation(
			domain+"/mgpu-policy", "binpack"))
		cards[name] = waitBound(world.ctx, t, world.namespace, name).Annotations[indexKeyPrefix+"c0"]
	}
	if cards[cheap[0]] == cards[cheap[1]] {
		t.Fatalf("binpack did not fill card by card: %v", cards)
	}
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").wholeCards(1))
	victims := world.endVictims(t, "preemptor")
	if len(victims) != 2 || cards[victims[0]] != cards[victims[1]] {
		t.Errorf("evicted %v from cards %v, want the two pods of one card", victims, cards)
	}
	if !slices.Contains(victims, cheap[0]) && !slices.Contains(victims, cheap[1]) {
		t.Errorf("evicted %v, want one of the cheap %v among them", victims, cheap)
	}
	world.history.check(world.ctx, t)
}

// endVictims deletes terminating pods, as kubelet would, until the pod is bound.
func (w *World) endVictims(t *testing.T, pod string) []string {
	t.Helper()
	var victims []string
	waitFor(t, time.Minute, pod+" to be bound", func() (bool, string) {
		pods, err := list(w.ctx, w.namespace)
		if err != nil {
			return false, err.Error()
		}
		said := ""
		for i := range pods {
			if pods[i].DeletionTimestamp != nil {
				victims = append(victims, pods[i].Name)
				deleteNow(w.ctx, t, w.namespace, pods[i].Name)
			}
			if pods[i].Name != pod {
				continue
			}
			said = scheduledCondition(&pods[i])
			if pods[i].Spec.NodeName != "" {
				return true, ""
			}
		}
		return false, said
	})
	return victims
}

// Evicting either pod releases a card, but only "b" has the CPUs, which kube-scheduler proposes for that
// reason. "a" was created first.
func TestPreemptionCountsCPU(t *testing.T) {
	shape := v100Node(2)
	shape.cpuMilli = 32_000
	world := newPreemptionWorld(t, shape)
	world.bind(t, world.pod("a").priorityClass("low").share(100, 8000).cpu("1"))
	world.bind(t, world.pod("b").priorityClass("low").share(50, 8000).cpu("30"))
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").wholeCards(1).cpu("30"))
	if victims := world.endVictims(t, "preemptor"); !slices.Equal(victims, []string{"b"}) {
		t.Errorf("evicted %v, want b", victims)
	}
	world.history.check(world.ctx, t)
}

// The small pods do not fit before the victim is gone, because the other card has no memory left. The
// sums have room for one of them and the preemptor, whose whole card requests no memory. All are tried
// again when the victim is gone, the small pods often first, since the preemptor has to back off.
func TestTheCardsOfVictimsAreKeptForThePreemptor(t *testing.T) {
	world := newPreemptionWorld(t, v100Node(2))
	freed := world.bind(t, world.pod("victim").priorityClass("low").share(100, 8000))
	world.bind(t, world.pod("stays").priorityClass("high").share(50, cardMemoryMiB-500))
	const small = 8
	for i := range small {
		create(world.ctx, t, world.pod(fmt.Sprint("small-", i)).priorityClass("low").share(30, 8000))
	}
	for i := range small {
		waitPending(world.ctx, t, world.namespace, fmt.Sprint("small-", i), "node(s) had no single card")
	}
	time.Sleep(2 * time.Second) // kube-scheduler's backoff of the small pods
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").wholeCards(1))
	if victims := world.waitNominated(t, "preemptor"); !slices.Equal(victims, []string{"victim"}) {
		t.Fatalf("evicted %v, want victim", victims)
	}
	deleteNow(world.ctx, t, world.namespace, "victim")
	got := waitBound(world.ctx, t, world.namespace, "preemptor").Annotations[indexKeyPrefix+"c0"]
	if got != freed {
		t.Errorf("the preemptor has card %s, want %s", got, freed)
	}
	world.history.check(world.ctx, t)
}

// The cards are no longer kept once the preemptor is deleted: kube-scheduler tries the other pod again.
func TestTheCardsOfVictimsAreFreeAfterThePreemptorIsDeleted(t *testing.T) {
	world := newPreemptionWorld(t, v100Node(1))
	world.bind(t, world.pod("victim").priorityClass("low").wholeCards(1))
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").wholeCards(1))
	world.waitNominated(t, "preemptor")
	create(world.ctx, t, world.pod("next").priorityClass("low").share(60, 8000))
	waitPending(world.ctx, t, world.namespace, "next", "Insufficient "+coreResource)
	deleteNow(world.ctx, t, world.namespace, "preemptor")
	deleteNow(world.ctx, t, world.namespace, "victim")
	waitBound(world.ctx, t, world.namespace, "next")
	world.history.check(world.ctx, t)
}

// kube-scheduler 1.36 looks for victims with its own filters, which add up the whole node. Where the sums
// suffice it finds none, which is an error to it, and it does not call the extender. deploy/LIMITS.md
// has this; a kube-scheduler that behaves differently fails this test.
func TestNoPodIsEvictedWhereTheSumsSufficeAndNoCardDoes(t *testing.T) {
	world := newPreemptionWorld(t, v100Node(2))
	for _, name := range []string{"a", "b"} {
		world.bind(t, world.pod(name).priorityClass("low").share(60, 8000).annotation(
			domain+"/mgpu-policy", "spread"))
	}
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").share(70, 8000))
	waitPending(world.ctx, t, world.namespace, "preemptor", coreShort)
	said := scheduledCondition(get(world.ctx, t, world.namespace, "preemptor"))
	if !strings.Contains(said, "expected at least one victim pod on node") {
		t.Errorf("kube-scheduler reports %q", said)
	}
	if victims := world.terminating(t); len(victims) > 0 {
		t.Errorf("evicted %v", victims)
	}
	_, metrics, err := world.extender.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(metrics, "\n") {
		if strings.Contains(line, `verb="preempt"`) && strings.Contains(line, "_count") &&
			!strings.HasSuffix(line, " 0") {
			t.Errorf("the extender was called: %s", line)
		}
	}
	world.history.check(world.ctx, t)
}
