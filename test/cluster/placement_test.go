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

// Replay schedules a workload with the real kube-scheduler, one pod after the other.
type Replay struct {
	ctx       context.Context
	namespace string
	workload  *Workload
	extender  *Extender
	witness   *Witness
	held      map[string][]Share // by node and card
	rejected  int                // number of pods that fit on no node
}

func newReplay(t *testing.T, workload *Workload, setup SchedulerSetup, flags ...string) *Replay {
	t.Helper()
	extender := plane.startExtender(t, flags...)
	replay := &Replay{ctx: context.Background(), workload: workload, extender: extender,
		witness: startWitness(t, extender), held: map[string][]Share{}}
	setup.configuration, setup.extenderURL = "kube-scheduler.yaml", replay.witness.url()
	plane.startScheduler(t, setup)
	replay.namespace = newNamespace(replay.ctx, t)
	for _, node := range workload.Nodes {
		plane.createNodeOf(replay.ctx, t, node.Name, NodeShape{node.Cards, node.Model, node.CardMemoryMiB,
			node.CPUMilli, node.MemoryMiB})
		replay.held[node.Name] = make([]Share, node.Cards)
	}
	extender.waitNodes(t, len(workload.Nodes))
	return replay
}

// arrive waits until the pod is bound or has a reason why it is not. A pod that does not fit is deleted.
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
		r.rejected++
		deleteNow(r.ctx, t, r.namespace, name)
	}
	return settled
}

// hold reads the cards of a bound pod and adds its shares. It is an error if the cards are invalid or a
// card is overcommitted.
func (r *Replay) hold(pod *corev1.Pod) ([]int, error) {
	request := requestsOf(pod)[0]
	held := r.held[pod.Spec.NodeName]
	cards, err := cardsOf(pod, request, len(held))
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(r.workload.Nodes, func(node WorkloadNode) bool { return node.Name == pod.Spec.NodeName })
	memory := r.workload.Nodes[index].CardMemoryMiB
	if request.perCard == wholeCard {
		request.perCard.memory = memory
	}
	for _, card := range cards {
		held[card] = held[card].plus(request.perCard)
		if held[card].core > 100 || held[card].memory > memory {
			return cards, fmt.Errorf("card %d of %s holds %v of 100 %% and %d MiB", card, pod.Spec.NodeName,
				held[card], memory)
		}
	}
	return cards, nil
}

// checkChosen checks that the pod is on the node that the extender chose.
func (r *Replay) checkChosen(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	decision, called := r.witness.decision(pod.UID)
	if !called {
		t.Errorf("%s was bound to %s without a call of the extender", pod.Name, pod.Spec.NodeName)
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

// checkNonGPUChosen checks that a non-GPU pod is on the node that the extender chose. It returns 0 if the
// extender did not rank the nodes, as before the first prices, and otherwise 1.
func (r *Replay) checkNonGPUChosen(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	decision, called := r.witness.decision(pod.UID)
	if !called || decision.scores == nil {
		return 0
	}
	if chosen, err := decision.chosen(); err != nil || chosen != pod.Spec.NodeName {
		t.Errorf("%s: the extender chose %q (%v), and it is on %q", pod.Name, chosen, err, pod.Spec.NodeName)
	}
	return 1
}

// With the same pods in the same order, kube-scheduler places all pods as the simulation does, although
// it chooses randomly among nodes of equal score. The policies of this test do not learn, and the extender
// chooses equal nodes by name. With spread there are equal nodes at every step.
func TestPlacementEqualsTheSimulation(t *testing.T) {
	for _, policy := range []string{"binpack", "spread"} {
		t.Run(policy, func(t *testing.T) {
			workload := simulate(t, policy)
			replay := newReplay(t, workload, SchedulerSetup{}, "--policy", policy, "--ties", "name")
			equal := 0
			for i, arrival := range workload.Arrivals {
				pod := arrival.pod(replay.namespace, fmt.Sprintf("%s-%03d", arrival.Pod, i))
				if arrival.Core > 0 {
					replay.checkAsSimulated(t, pod, arrival)
					equal++
				} else if arrival.Node != "" {
					// kube-scheduler does not send this pod to the extender, so it is bound to its simulated
					// node.
					replay.arrive(t, pod.onlyOn(arrival.Node))
				}
			}
			t.Logf("%d pods with cards were placed as simulated, %d of them rejected, on %d nodes", equal, replay.rejected,
				len(workload.Nodes))
			if equal < len(workload.Arrivals)/2 {
				t.Errorf("only %d of %d arrivals request cards", equal, len(workload.Arrivals))
			}
		})
	}
}

// checkAsSimulated ends the test at the first difference, because all later placements would differ too.
func (r *Replay) checkAsSimulated(t *testing.T, pod *PodBuilder, arrival Arrival) {
	t.Helper()
	settled := r.arrive(t, pod)
	if settled.Spec.NodeName != arrival.Node {
		t.Fatalf("%s is on %q, want %q: %s", settled.Name, settled.Spec.NodeName, arrival.Node,
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

// waitForPrices waits until the extender has learned prices, without which it does not rank nodes for
// non-GPU pods.
func (r *Replay) waitForPrices(t *testing.T) {
	t.Helper()
	waitFor(t, time.Minute, "the first prices", func() (bool, string) {
		_, text, err := r.extender.get("/inspect/policy")
		return err == nil && strings.Contains(text, `"prices"`), text
	})
}

func TestKubeSchedulerTakesTheNodeWithTheHighestScore(t *testing.T) {
	workload := simulate(t, "binpack")
	// With the default policy. Filter answers with all nodes, so that kube-scheduler calls prioritize.
	replay := newReplay(t, workload, SchedulerSetup{ranksNonGPU: true}, "--candidate-nodes", "0")
	called, scored, nonGPU := 0, 0, 0
	for i, arrival := range workload.Arrivals {
		if i == len(workload.Arrivals)/2 {
			replay.waitForPrices(t)
		}
		settled := replay.arrive(t, arrival.pod(replay.namespace, fmt.Sprintf("%s-%03d", arrival.Pod, i)))
		if settled.Spec.NodeName == "" {
			continue
		}
		if arrival.Core == 0 {
			nonGPU += replay.checkNonGPUChosen(t, settled)
			continue
		}
		called++
		if decision, _ := replay.witness.decision(settled.UID); decision.scores != nil {
			scored++
		}
		replay.checkChosen(t, settled)
		if _, err := replay.hold(settled); err != nil {
			t.Errorf("%s: %v", settled.Name, err)
		}
	}
	t.Logf("%d pods with cards bound, %d of them with scores for more than one node; %d pods rejected",
		called, scored, replay.rejected)
	t.Logf("%d non-GPU pods are on the node that the extender chose", nonGPU)
	if nonGPU == 0 {
		t.Errorf("the extender ranked nodes for no non-GPU pod")
	}
	if scored < called/2 {
		t.Errorf("only %d of %d decisions had more than one node", scored, called)
	}
}

// The entry for non-GPU pods is ignorable, the other one is not.
func TestNonGPUPodsAreBoundWithoutTheExtender(t *testing.T) {
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
	create(ctx, t, newPod(namespace, "non-gpu").container("app", "", ""))
	waitBound(ctx, t, namespace, "non-gpu")
	waitPending(ctx, t, namespace, "with-cards", corev1.PodReasonSchedulerError)
}
