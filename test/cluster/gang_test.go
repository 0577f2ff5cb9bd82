package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func (b *PodBuilder) inGroup(name string) *PodBuilder {
	b.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	return b
}

// newGroupWorld has nodes and a kube-scheduler that knows PodGroups.
func newGroupWorld(t *testing.T, nodes int) *World {
	t.Helper()
	world := &World{ctx: context.Background(), extender: plane.startExtender(t)}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url(),
		gates: plane.groupGates()})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", nodes)
	world.extender.waitNodes(t, nodes)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

// newGangWorld has one node with four cards of which 50, 40, 30 and 30 % are free, and no other free cards.
func newGangWorld(t *testing.T) *World {
	t.Helper()
	world := newGroupWorld(t, 1)
	for i, used := range append(slices.Repeat([]int{100}, cardsOfEachNode-4), 70, 70, 60, 50) {
		name := fmt.Sprint("full-", i)
		create(world.ctx, t, world.pod(name).share(used, 8000))
		waitBound(world.ctx, t, world.namespace, name)
	}
	return world
}

// createGroup creates a PodGroup that needs `members`, with more fields of its spec, each after a comma. The
// version of the API depends on that of Kubernetes.
func (w *World) createGroup(t *testing.T, name string, members int, fields string) {
	t.Helper()
	client := plane.admin.Discovery().RESTClient()
	path := fmt.Sprintf("/apis/%s/namespaces/%s/podgroups", plane.groupVersion(), w.namespace)
	body := fmt.Sprintf(`{"apiVersion":"%s","kind":"PodGroup","metadata":{"name":"%s"},`+
		`"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}%s}}`, plane.groupVersion(), name, members, fields)
	err := client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body([]byte(body)).Do(w.ctx).Error()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Delete().AbsPath(path, name).Do(context.Background()).Error() })
}

// createGang creates a PodGroup that needs all its members, and the members.
func (w *World) createGang(t *testing.T, group string, members, core int) {
	t.Helper()
	w.createGroup(t, group, members, "")
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

// kube-scheduler proposes all members of such a group as one victim, also those on other nodes.
func TestAPodPreemptsAMemberOfAGroupOnTwoNodes(t *testing.T) {
	if plane.minor < groupsAreBeta {
		t.Skip("disruptionMode is an object from Kubernetes 1.37 on")
	}
	world := newGroupWorld(t, 2)
	for name, value := range map[string]int32{"low": 1, "high": 1000} {
		createPriorityClass(world.ctx, t, name, value)
	}
	world.createGroup(t, "group", 2, `,"priorityClassName":"low","disruptionMode":{"all":{}}`)
	for _, name := range []string{"a", "b"} {
		create(world.ctx, t, world.pod(name).priorityClass("low").wholeCards(cardsOfEachNode).inGroup("group"))
	}
	for _, name := range []string{"a", "b"} {
		waitBound(world.ctx, t, world.namespace, name)
	}
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").wholeCards(1))
	victims := world.waitNominated(t, "preemptor")
	// The other member stays on its node.
	if len(victims) != 1 {
		t.Fatalf("evicted %v, want one of a and b", victims)
	}
	deleteNow(world.ctx, t, world.namespace, victims[0])
	waitBound(world.ctx, t, world.namespace, "preemptor")
	world.history.check(world.ctx, t)
}
