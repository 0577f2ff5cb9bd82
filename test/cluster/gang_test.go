package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const gangGates = "GenericWorkload=true,GangScheduling=true"

func (b *PodBuilder) inGroup(name string) *PodBuilder {
	b.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	return b
}

// newGangWorld has one node with four cards of which 50, 40, 30 and 30 % are free, and no other free cards,
// and a kube-scheduler that knows PodGroups.
func newGangWorld(t *testing.T) *World {
	t.Helper()
	world := &World{ctx: context.Background(), extender: plane.startExtender(t)}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url(),
		gates: gangGates})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", 1)
	world.extender.waitNodes(t, 1)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	for i, used := range append(slices.Repeat([]int{100}, cardsOfEachNode-4), 70, 70, 60, 50) {
		name := fmt.Sprint("full-", i)
		create(world.ctx, t, world.pod(name).share(used, 8000))
		waitBound(world.ctx, t, world.namespace, name)
	}
	return world
}

// createGang creates a PodGroup that needs all its members, and the members.
func (w *World) createGang(t *testing.T, group string, members, core int) {
	t.Helper()
	object := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: group, Namespace: w.namespace},
		Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(members)}}}}
	groups := plane.admin.SchedulingV1alpha2().PodGroups(w.namespace)
	if _, err := groups.Create(w.ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = groups.Delete(context.Background(), group, metav1.DeleteOptions{}) })
	for i := range members {
		create(w.ctx, t, w.pod(fmt.Sprint(group, "-", i)).share(core, 1000).inGroup(group))
	}
}

// boundMembers returns how many members of a group have a node.
func (w *World) boundMembers(t *testing.T, group string, members int) (bound int) {
	t.Helper()
	for i := range members {
		if get(w.ctx, t, w.namespace, fmt.Sprint(group, "-", i)).Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}

// The sums of the node suffice for both members, and one card has room for one of them: kube-scheduler asks
// about both before it binds the first.
func TestAGangOfWhichOneMemberFitsIsNotBoundInPart(t *testing.T) {
	world := newGangWorld(t)
	for round := range 3 {
		group := fmt.Sprint("large-", round)
		calls := func() float64 {
			return world.extender.metrics(t).with("mgpu_extender_verb_duration_seconds_count", `verb="filter"`)
		}
		before := calls()
		world.createGang(t, group, 2, 45)
		// kube-scheduler tries a group again without an event.
		waitFor(t, time.Minute, "kube-scheduler to try the group twice", func() (bool, string) {
			return calls() >= before+4, fmt.Sprint(calls()-before, " calls of filter")
		})
		if bound := world.boundMembers(t, group, 2); bound != 0 {
			t.Errorf("%d of 2 members are bound", bound)
		}
		deleteNow(world.ctx, t, world.namespace, group+"-0", group+"-1")
	}
	// What fits is bound whole.
	world.createGang(t, "small", 4, 25)
	for i := range 4 {
		waitBound(world.ctx, t, world.namespace, fmt.Sprint("small-", i))
	}
	world.history.check(world.ctx, t)
}
