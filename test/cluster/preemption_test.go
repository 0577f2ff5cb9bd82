package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newPreemptionWorld returns a world with one node, and creates priority classes.
func newPreemptionWorld(t *testing.T, shape NodeShape, flags ...string) *World {
	t.Helper()
	world := newWorld(t, 0, flags...)
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

// newFragmentedWorld has one node of two cards, of each of which the pods a and b of priority low have 60 %.
func newFragmentedWorld(t *testing.T) *World {
	t.Helper()
	world := newPreemptionWorld(t, v100Node(2))
	for _, name := range []string{"a", "b"} {
		world.bind(t, world.pod(name).priorityClass("low").share(60, 8000).annotation(
			domain+"/mgpu-policy", "spread"))
	}
	return world
}

// kube-scheduler looks for victims with its own filters, which add up the whole node. Where the sums
// suffice it finds none, and does not call the extender, which evicts a pod itself then.
func TestAPodIsEvictedWhereTheSumsSufficeAndNoCardDoes(t *testing.T) {
	world := newFragmentedWorld(t)
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").share(70, 8000))
	victims := world.waitNominated(t, "preemptor")
	if len(victims) != 1 || (victims[0] != "a" && victims[0] != "b") {
		t.Fatalf("evicted %v, want a or b", victims)
	}
	victim := get(world.ctx, t, world.namespace, victims[0])
	if !slices.ContainsFunc(victim.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == corev1.DisruptionTarget && one.Status == corev1.ConditionTrue &&
			one.Reason == corev1.PodReasonPreemptionByScheduler
	}) {
		t.Errorf("the victim has the conditions %v", victim.Status.Conditions)
	}
	preemptor := get(world.ctx, t, world.namespace, "preemptor")
	waitFor(t, time.Minute, "the Events of the pods", func() (bool, string) {
		said := eventsBy(world.ctx, victim, "mgpu-extender") + eventsBy(world.ctx, preemptor, "mgpu-extender")
		return strings.Contains(said, "Preempted by pod "+string(preemptor.UID)+" on node gpu-00") &&
			strings.Contains(said, "1 pod of lower priority"), said
	})
	// It ends slowly: no other pod is evicted for this one, and none of lower priority takes its card.
	create(world.ctx, t, world.pod("other").priorityClass("low").share(45, 8000))
	waitPending(world.ctx, t, world.namespace, "other", corev1.PodReasonUnschedulable)
	if again := world.terminating(t); !slices.Equal(again, victims) {
		t.Fatalf("evicted %v for one pod, and then %v", victims, again)
	}
	card := victim.Annotations[indexKeyPrefix+"c0"]
	deleteNow(world.ctx, t, world.namespace, victims[0])
	if got := waitBound(world.ctx, t, world.namespace, "preemptor").Annotations[indexKeyPrefix+"c0"]; got != card {
		t.Errorf("the preemptor has card %s, want %s", got, card)
	}
	metrics := world.extender.metrics(t)
	if pods, victims := metrics.with("mgpu_extender_card_preemptions_total"),
		metrics.with("mgpu_extender_card_preemption_victims_total"); pods != 1 || victims != 1 {
		t.Errorf("%v preemptions and %v victims are counted, want 1 and 1", pods, victims)
	}
	world.history.check(world.ctx, t)
}

// No pod is evicted for one whose policy is Never, or of the priority of all pods, or whose cards are free
// when a pod has ended that is terminating, or for which another node has cards.
func TestNoPodIsEvictedByCardWhereNoneNeedBe(t *testing.T) {
	world := newFragmentedWorld(t)
	createPriorityClassOf(world.ctx, t, "polite", 2000, corev1.PreemptNever)
	create(world.ctx, t, world.pod("polite").priorityClass("polite").share(70, 8000))
	create(world.ctx, t, world.pod("equal").priorityClass("low").share(70, 8000))
	waitPending(world.ctx, t, world.namespace, "polite", coreShort)
	waitPending(world.ctx, t, world.namespace, "equal", coreShort)
	time.Sleep(4 * time.Second)
	if victims := world.terminating(t); len(victims) > 0 {
		t.Fatalf("evicted %v", victims)
	}
	deleteNow(world.ctx, t, world.namespace, "polite", "equal")
	if err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").share(70, 8000))
	waitPending(world.ctx, t, world.namespace, "preemptor", coreShort)
	time.Sleep(4 * time.Second)
	if victims := world.terminating(t); !slices.Equal(victims, []string{"b"}) {
		t.Fatalf("terminating: %v, want b alone", victims)
	}
	deleteNow(world.ctx, t, world.namespace, "b")
	waitBound(world.ctx, t, world.namespace, "preemptor")
	world.history.check(world.ctx, t)
}

// kube-scheduler tries a pod again at once that an extender refused and whose status changes, also where it changes it
// itself. So what it says of a pod must not differ at each try, as a list of the nodes without victims does.
func TestPodsThatFitNoCardAreNotTriedAllTheTime(t *testing.T) {
	const nodes, pods = 60, 3
	world := newPreemptionWorld(t, v100Node(2), "--preempt-by-card=false")
	for i := 1; i < nodes; i++ {
		world.nodes = append(world.nodes, fmt.Sprintf("gpu-%02d", i))
		plane.createNodeOf(world.ctx, t, world.nodes[i], v100Node(2))
	}
	world.extender.waitNodes(t, nodes)
	var low []placedPod
	for i := range 2 * nodes {
		pod := world.pod(fmt.Sprint("low-", i)).priorityClass("low").share(60, 8000)
		low = append(low, placedPod{pod, world.nodes[i/2], map[string]string{"c0": fmt.Sprint(i % 2)}})
	}
	place(world.ctx, t, world.namespace, low)
	for i := range pods {
		create(world.ctx, t, world.pod(fmt.Sprint("high-", i)).priorityClass("high").share(70, 8000))
	}
	for i := range pods {
		waitPending(world.ctx, t, world.namespace, fmt.Sprint("high-", i), coreShort)
	}
	filters := func() float64 { return world.extender.metrics(t).with(verbSeconds+"_count", `verb="filter"`) }
	// kube-scheduler's longest back-off is 10 s.
	waitFor(t, 3*time.Minute, "15 seconds without a try", func() (bool, string) {
		before := filters()
		time.Sleep(15 * time.Second)
		return filters() == before, fmt.Sprintf("%v tries in 15 seconds", filters()-before)
	})
}

// The rights of deploy/manifests suffice to preempt, and its policies permit nothing else with them.
func TestTheExtenderDeletesOnlyPodsThatItPreempts(t *testing.T) {
	world := newPreemptionWorld(t, v100Node(2))
	client, err := plane.clientAs(extenderToken)
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods(world.namespace)
	world.bind(t, world.pod("cards").priorityClass("low").share(60, 8000))
	create(world.ctx, t, world.pod("none").priorityClass("low").container("c0", "", "").scheduler("nobody"))
	create(world.ctx, t, world.pod("pending").share(100, 40_000))
	patch := func(pod, status string) error {
		_, err := pods.Patch(world.ctx, pod, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`),
			metav1.PatchOptions{}, "status")
		return err
	}
	condition := func(status, reason string) string {
		return fmt.Sprintf(`{"conditions":[{"type":"DisruptionTarget","status":%q,"reason":%q}]}`, status, reason)
	}
	preempted := condition("True", corev1.PodReasonPreemptionByScheduler)
	byPolicy := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'mgpu-extender-")
	}
	refused := func(what string, err error) {
		t.Helper()
		if !byPolicy(err) {
			t.Errorf("%s: %v, want the sentence of a policy", what, err)
		}
	}
	waitFor(t, time.Minute, "the policies to hold", func() (bool, string) {
		err := pods.Delete(world.ctx, "none", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return byPolicy(err), fmt.Sprint(err)
	})
	refused("deleting a pod that is not preempted", pods.Delete(world.ctx, "cards", metav1.DeleteOptions{}))
	refused("a condition of another reason", patch("cards", condition("True", "DeletionByTaintManager")))
	refused("a condition that is false", patch("cards", condition("False", corev1.PodReasonPreemptionByScheduler)))
	refused("the condition of a pod without cards", patch("none", preempted))
	refused("deleting a pod without cards", pods.Delete(world.ctx, "none", metav1.DeleteOptions{}))
	// The API server itself refuses that, too, before it asks the policies.
	if err := patch("cards", `{"nominatedNodeName":"gpu-00"}`); !apierrors.IsInvalid(err) {
		t.Errorf("nominating a pod that is bound: %v, want invalid", err)
	}
	refused("nominating a pod without cards", patch("none", `{"nominatedNodeName":"gpu-00"}`))
	refused("another field", patch("cards", `{"reason":"Evicted"}`))
	if err := patch("pending", `{"nominatedNodeName":"gpu-00"}`); err != nil {
		t.Errorf("nominating a pending pod: %v", err)
	}
	if err := patch("cards", preempted); err != nil {
		t.Errorf("the condition of a victim: %v", err)
	}
	if err := pods.Delete(world.ctx, "cards", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting a victim: %v", err)
	}
}
