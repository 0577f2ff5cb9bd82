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

// createGangOf creates a PodGroup that needs all its members, and the members, with a priority class.
func (w *World) createGangOf(t *testing.T, class, group string, members, core int) (names []string) {
	t.Helper()
	w.createGroup(t, group, members, fmt.Sprintf(`,"priorityClassName":%q`, class))
	for i := range members {
		names = append(names, fmt.Sprint(group, "-", i))
		create(w.ctx, t, w.pod(names[i]).priorityClass(class).share(core, 1000).inGroup(group))
	}
	return names
}

// waitEvicted waits until so many pods are terminating, and returns them.
func (w *World) waitEvicted(t *testing.T, count int) (victims []string) {
	t.Helper()
	waitFor(t, time.Minute, fmt.Sprint(count, " pods to be evicted"), func() (bool, string) {
		victims = w.terminating(t)
		return len(victims) == count, fmt.Sprint(victims)
	})
	return victims
}

// The pods of such a group are evicted together or not at all, and the extender does not know all of them.
func TestAPodOfAGroupThatIsEvictedTogetherIsNotEvictedByCard(t *testing.T) {
	if plane.minor < groupsAreBeta {
		t.Skip("disruptionMode is an object from Kubernetes 1.37 on")
	}
	world := newGroupWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", v100Node(2))
	world.nodes = []string{"gpu-00"}
	world.extender.waitNodes(t, 1)
	for name, value := range map[string]int32{"low": 1, "middle": 10, "high": 1000} {
		createPriorityClass(world.ctx, t, name, value)
	}
	world.bind(t, world.pod("single").priorityClass("middle").share(60, 8000))
	world.createGroup(t, "group", 1, `,"priorityClassName":"low","disruptionMode":{"all":{}}`)
	world.bind(t, world.pod("member").priorityClass("low").share(60, 8000).inGroup("group"))
	create(world.ctx, t, world.pod("preemptor").priorityClass("high").share(70, 8000))
	if victims := world.waitEvicted(t, 1); victims[0] != "single" {
		t.Fatalf("evicted %v, want single, though member is of lower priority", victims)
	}
	deleteNow(world.ctx, t, world.namespace, "single")
	waitBound(world.ctx, t, world.namespace, "preemptor")
	world.history.check(world.ctx, t)
}

// kube-scheduler evicts no pods for a group that the extender refuses, and does not call preempt for it.
func TestAGroupPreemptsAsAWholeOrNotAtAll(t *testing.T) {
	if plane.minor < groupsAreBeta {
		t.Skip("groups have the priority of their pods from Kubernetes 1.37 on")
	}
	world := newGroupWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", v100Node(2))
	world.nodes = []string{"gpu-00"}
	world.extender.waitNodes(t, 1)
	for name, value := range map[string]int32{"low": 1, "high": 1000} {
		createPriorityClass(world.ctx, t, name, value)
	}
	for _, name := range []string{"a", "b"} {
		world.bind(t, world.pod(name).priorityClass("low").share(60, 8000).annotation(
			domain+"/mgpu-policy", "spread"))
	}
	// Two of its members would fit in place of a and b.
	large := world.createGangOf(t, "high", "large", 3, 70)
	world.waitSaid(t, corev1.PodReasonUnschedulable)
	time.Sleep(4 * time.Second) // the extender looks for victims after one
	if victims := world.terminating(t); len(victims) > 0 {
		t.Fatalf("evicted %v for a group that does not fit", victims)
	}
	deleteNow(world.ctx, t, world.namespace, large...)
	pair := world.createGangOf(t, "high", "pair", 2, 70)
	victims := world.waitEvicted(t, 2)
	// They end slowly: no more pods are evicted, and none of lower priority takes their cards.
	create(world.ctx, t, world.pod("late").priorityClass("low").share(45, 8000))
	nominated := func(name string) string { return get(world.ctx, t, world.namespace, name).Status.NominatedNodeName }
	for _, name := range pair {
		waitFor(t, time.Minute, name+" to be nominated", func() (bool, string) { return nominated(name) == "gpu-00", nominated(name) })
	}
	waitPending(world.ctx, t, world.namespace, "late", corev1.PodReasonUnschedulable)
	for _, name := range pair {
		if node := nominated(name); node != "gpu-00" {
			t.Errorf("%s is nominated for %q", name, node)
		}
	}
	deleteNow(world.ctx, t, world.namespace, victims...)
	for _, name := range pair {
		waitBound(world.ctx, t, world.namespace, name)
	}
	metrics := world.extender.metrics(t)
	if groups, victims := metrics.with("mgpu_extender_card_preemptions_total"),
		metrics.with("mgpu_extender_card_preemption_victims_total"); groups != 1 || victims != 2 {
		t.Errorf("%v preemptions and %v victims are counted, want 1 and 2", groups, victims)
	}
	// The same where the sums of the node do not suffice.
	deleteNow(world.ctx, t, world.namespace, append(pair, "late")...)
	for _, name := range []string{"c", "d"} {
		world.bind(t, world.pod(name).priorityClass("low").share(100, 8000))
	}
	whole := world.createGangOf(t, "high", "whole", 2, 100)
	deleteNow(world.ctx, t, world.namespace, world.waitEvicted(t, 2)...)
	for _, name := range whole {
		waitBound(world.ctx, t, world.namespace, name)
	}
	world.history.check(world.ctx, t)
}

// pending returns the messages of kube-scheduler about members that are not bound.
func (w *World) pending(t *testing.T) (said string) {
	t.Helper()
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Spec.NodeName == "" {
			said += pods[i].Name + ": " + scheduledCondition(&pods[i]) + "\n"
		}
	}
	return said
}

// waitSaid waits until kube-scheduler says this of a member that is not bound.
func (w *World) waitSaid(t *testing.T, sentence string) {
	t.Helper()
	waitFor(t, time.Minute, "kube-scheduler to say "+sentence, func() (bool, string) {
		said := w.pending(t)
		return strings.Contains(said, sentence), said
	})
}

// No member of these groups is bound, and none keeps the two cards of the node from a pod that needs both.
func TestAGroupThatCannotBeBoundLeavesNothingBehind(t *testing.T) {
	if plane.minor < groupsAreBeta {
		t.Skip("kube-scheduler 1.36 tries a group that does not fit again without a pause, also without extenders")
	}
	world := newGroupWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", v100Node(2))
	world.extender.waitNodes(t, 1)
	// kube-scheduler asks the extender about none of a group of which members are missing.
	for name, one := range map[string]struct {
		begin func(group string)
		said  string // by kube-scheduler about one of them
		then  func(group string)
	}{
		"never-fits": {begin: func(group string) { world.createGang(t, group, 3, 60) }, said: "minCount (3) cannot be satisfied: 2 scheduled"},
		"a-member-is-too-large": {begin: func(group string) {
			world.createGroup(t, group, 2, "")
			create(world.ctx, t, world.pod(group+"-0").share(60, 1000).inGroup(group))
			create(world.ctx, t, world.pod(group+"-1").share(60, cardMemoryMiB+1).inGroup(group))
		}, said: "node(s) had no card that large, even empty"},
		"a-member-is-deleted": {begin: func(group string) { world.createGang(t, group, 3, 60) }, said: "minCount (3) cannot be satisfied",
			then: func(group string) { deleteNow(world.ctx, t, world.namespace, group+"-2") }},
	} {
		t.Run(name, func(t *testing.T) {
			one.begin(name)
			world.waitSaid(t, one.said)
			if one.then != nil {
				one.then(name)
			}
			create(world.ctx, t, world.pod("both-cards").wholeCards(2))
			waitBound(world.ctx, t, world.namespace, "both-cards")
			pods, err := list(world.ctx, world.namespace)
			if err != nil {
				t.Fatal(err)
			}
			for i := range pods {
				if pods[i].Name != "both-cards" && pods[i].Spec.NodeName != "" {
					t.Errorf("%s is bound", pods[i].Name)
				}
			}
			t.Log(world.pending(t))
			removePods(world.namespace)
		})
	}
	world.history.check(world.ctx, t)
}

// Cards that are kept for a group are kept from a group of the same name in another namespace, whose members come
// later and fit only on what is left.
func TestGroupsOfTwoNamespacesWithOneNameAreTwoGroups(t *testing.T) {
	world := newGroupWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", v100Node(2))
	world.extender.waitNodes(t, 1)
	other := *world
	other.namespace += "-2"
	if err := plane.createNamespace(world.ctx, other.namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(other.namespace) })
	for _, one := range []*World{world, &other} {
		one.createGroup(t, "same", 2, "")
	}
	// The pods of the two arrive in turn.
	for i := range 2 {
		create(world.ctx, t, world.pod(fmt.Sprint("same-", i)).share(60, 1000).inGroup("same"))
		create(world.ctx, t, other.pod(fmt.Sprint("same-", i)).share(40, 1000).inGroup("same"))
	}
	for i := range 2 {
		waitBound(world.ctx, t, world.namespace, fmt.Sprint("same-", i))
		waitBound(world.ctx, t, other.namespace, fmt.Sprint("same-", i))
	}
	world.history.check(world.ctx, t)
}
