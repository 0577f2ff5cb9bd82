package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const settlePollInterval = 5 * time.Millisecond

// Replay is a workload on the real kube-scheduler, one pod after the other.
type Replay struct {
	ctx       context.Context
	namespace string
	workload  *Workload
	witness   *Witness
	held      map[string][]Share // by node and card
	turned    int                // pods that were told that they fit nowhere
}

func newReplay(t *testing.T, workload *Workload, flags ...string) *Replay {
	t.Helper()
	extender := plane.startExtender(t, flags...)
	replay := &Replay{ctx: context.Background(), workload: workload,
		witness: startWitness(t, extender), held: map[string][]Share{}}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: replay.witness.url()})
	replay.namespace = newNamespace(replay.ctx, t)
	for _, node := range workload.Nodes {
		plane.createNodeOf(replay.ctx, t, node.Name, NodeShape{node.Cards, node.Model, node.CardMemoryMiB,
			node.CPUMilli, node.MemoryMiB})
		replay.held[node.Name] = make([]Share, node.Cards)
	}
	extender.waitNodes(t, len(workload.Nodes))
	return replay
}

// arrive returns once the pod is bound, or was told that it fits nowhere: then it leaves.
func (r *Replay) arrive(t *testing.T, pod *PodBuilder) *corev1.Pod {
	t.Helper()
	name := pod.pod.Name
	create(r.ctx, t, pod)
	var settled *corev1.Pod
	err := pollEvery(settlePollInterval, time.Minute, name+" to be bound or refused", func() (bool, string) {
		settled = get(r.ctx, t, r.namespace, name)
		said := scheduledCondition(settled)
		return settled.Spec.NodeName != "" || strings.HasPrefix(said, corev1.PodReasonUnschedulable), said
	})
	if err != nil {
		t.Fatal(err)
	}
	if settled.Spec.NodeName == "" {
		r.turned++
		deleteNow(r.ctx, t, r.namespace, name)
	}
	return settled
}

// hold reads a bound pod's cards, and has them held. Errors: what cardsOf says, a card that is then past
// its limits.
func (r *Replay) hold(pod *corev1.Pod) ([]int, error) {
	ask := asksOf(pod)[0]
	held := r.held[pod.Spec.NodeName]
	cards, err := cardsOf(pod, ask, len(held))
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(r.workload.Nodes, func(node WorkloadNode) bool { return node.Name == pod.Spec.NodeName })
	memory := r.workload.Nodes[index].CardMemoryMiB
	if ask.perCard == wholeCard {
		ask.perCard.memory = memory
	}
	for _, card := range cards {
		held[card] = held[card].plus(ask.perCard)
		if held[card].core > 100 || held[card].memory > memory {
			return cards, fmt.Errorf("card %d of %s holds %v of 100 %% and %d MiB", card, pod.Spec.NodeName,
				held[card], memory)
		}
	}
	return cards, nil
}

// checkChosen wants the pod where the extender wanted it, and nowhere else.
func (r *Replay) checkChosen(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	decision, asked := r.witness.decision(pod.UID)
	if !asked {
		t.Errorf("%s was bound to %s without asking the extender", pod.Name, pod.Spec.NodeName)
		return
	}
	chosen, err := decision.chosen()
	if err != nil {
		t.Errorf("%s: %v", pod.Name, err)
		return
	}
	if chosen != decision.bound || chosen != pod.Spec.NodeName {
		t.Errorf("%s: the extender chose %s, the scheduler %s, and it is on %q", pod.Name, chosen,
			decision.bound, pod.Spec.NodeName)
	}
}

// checkPlainChosen is 1 for a pod that went where the extender wanted it, by an entry that has no bind; 0
// where the extender said nothing, as before the first prices.
func (r *Replay) checkPlainChosen(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	decision, asked := r.witness.decision(pod.UID)
	if !asked || decision.scores == nil {
		return 0
	}
	if chosen, err := decision.chosen(); err != nil || chosen != pod.Spec.NodeName {
		t.Errorf("%s: the extender chose %q (%v), and it is on %q", pod.Name, chosen, err, pod.Spec.NodeName)
	}
	return 1
}

// The same pods in the same order: nothing of kube-scheduler, its random choice among equals least of all,
// changes where they go. These policies neither draw nor learn; spread has equals at every step.
func TestPlacementIsTheSimulatedOne(t *testing.T) {
	for _, policy := range []string{"binpack", "spread"} {
		t.Run(policy, func(t *testing.T) {
			workload := simulate(t, policy)
			replay := newReplay(t, workload, "--policy", policy)
			equal := 0
			for i, arrival := range workload.Arrivals {
				pod := arrival.pod(replay.namespace, fmt.Sprintf("%s-%03d", arrival.Pod, i))
				if arrival.Core > 0 {
					replay.checkAsSimulated(t, pod, arrival)
					equal++
				} else if arrival.Node != "" {
					// It does not reach the extender, and is sent where it was simulated.
					replay.arrive(t, pod.onlyOn(arrival.Node))
				}
			}
			t.Logf("%d pods with cards went as simulated, %d of them nowhere, on %d nodes", equal, replay.turned,
				len(workload.Nodes))
			if equal < len(workload.Arrivals)/2 {
				t.Errorf("only %d of %d arrivals ask for cards", equal, len(workload.Arrivals))
			}
		})
	}
}

// checkAsSimulated ends the test at the first difference: all that follows would differ, too.
func (r *Replay) checkAsSimulated(t *testing.T, pod *PodBuilder, arrival Arrival) {
	t.Helper()
	settled := r.arrive(t, pod)
	if settled.Spec.NodeName != arrival.Node {
		t.Fatalf("%s went to %q, want %q: %s", settled.Name, settled.Spec.NodeName, arrival.Node,
			scheduledCondition(settled))
	}
	if arrival.Node == "" {
		return
	}
	cards, err := r.hold(settled)
	if err != nil || !slices.Equal(cards, arrival.Cards) {
		t.Fatalf("%s has cards %v of %s, want %v: %v", settled.Name, cards, arrival.Node, arrival.Cards, err)
	}
	r.checkChosen(t, settled)
}

func TestKubeSchedulerTakesTheOneNodeThatTheExtenderScoresHighest(t *testing.T) {
	workload := simulate(t, "binpack")
	replay := newReplay(t, workload) // with the default policy
	asked, scored, plain := 0, 0, 0
	for i, arrival := range workload.Arrivals {
		settled := replay.arrive(t, arrival.pod(replay.namespace, fmt.Sprintf("%s-%03d", arrival.Pod, i)))
		if settled.Spec.NodeName == "" {
			continue
		}
		if arrival.Core == 0 {
			plain += replay.checkPlainChosen(t, settled)
			continue
		}
		asked++
		if decision, _ := replay.witness.decision(settled.UID); decision.scores != nil {
			scored++
		}
		replay.checkChosen(t, settled)
		if _, err := replay.hold(settled); err != nil {
			t.Errorf("%s: %v", settled.Name, err)
		}
	}
	t.Logf("%d pods with cards bound, %d of them with scores for more than one node; %d pods found no room",
		asked, scored, replay.turned)
	t.Logf("%d pods without cards went where the extender wanted them", plain)
	if plain == 0 {
		t.Errorf("the extender ranked nodes for no pod without cards")
	}
	if scored < asked/2 {
		t.Errorf("only %d of %d decisions had a choice", scored, asked)
	}
}

// The entry for pods without cards may be ignored; the other may not.
func TestPodsWithoutCardsAreBoundWhereNoExtenderAnswers(t *testing.T) {
	ctx := context.Background()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml",
		extenderURL: fmt.Sprintf("http://127.0.0.1:%d/mgpu", port)})
	namespace := newNamespace(ctx, t)
	plane.createNodes(ctx, t, "gpu-", 2)
	create(ctx, t, newPod(namespace, "with-cards").share(30, 1024))
	create(ctx, t, newPod(namespace, "plain").container("app", "", ""))
	waitBound(ctx, t, namespace, "plain")
	if pod := get(ctx, t, namespace, "with-cards"); pod.Spec.NodeName != "" {
		t.Errorf("a pod with cards was bound to %s without the extender", pod.Spec.NodeName)
	}
}
