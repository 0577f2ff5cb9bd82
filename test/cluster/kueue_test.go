package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The number of members of the groups, of which two fit on a card.
const queuedMembers = 4

// KueueWorld has a node with two cards, and Kueue's controller with the queue of deploy/examples.
type KueueWorld struct {
	*World
	kueue *Kueue
}

func newKueueWorld(t *testing.T) *KueueWorld {
	t.Helper()
	world := newGroupWorld(t, 0)
	plane.createNodeOf(world.ctx, t, "gpu-00", v100Node(2))
	label := []byte(`{"metadata":{"labels":{"vke.volcengine.com/mgpu-node":"true"}}}`)
	if _, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, "gpu-00", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	world.nodes = []string{"gpu-00"}
	world.extender.waitNodes(t, 1)
	return &KueueWorld{World: world, kueue: startKueue(t, world.namespace)}
}

// queued adds the pod to a group of the queue.
func (b *PodBuilder) queued(group string, members int) *PodBuilder {
	b.pod.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "mgpu", "kueue.x-k8s.io/pod-group-name": group}
	return b.annotation("kueue.x-k8s.io/pod-group-total-count", fmt.Sprint(members))
}

func (w *KueueWorld) member(group, name string) *PodBuilder {
	return w.pod(name).share(45, 1000).queued(group, queuedMembers)
}

// members returns how many pods of a group that are not about to end exist, how many of them Kueue has admitted, and
// how many are bound.
func (w *KueueWorld) members(t *testing.T, group string) (all, admitted, bound int) {
	t.Helper()
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Labels["kueue.x-k8s.io/pod-group-name"] != group || pods[i].DeletionTimestamp != nil {
			continue
		}
		all++
		if len(pods[i].Spec.SchedulingGates) == 0 {
			admitted++
		}
		if pods[i].Spec.NodeName != "" {
			bound++
		}
	}
	return all, admitted, bound
}

func (w *KueueWorld) waitMembers(t *testing.T, group string, all, admitted, bound int) {
	t.Helper()
	what := func(a, b, c int) string {
		return fmt.Sprintf("%d pods of %s, %d of them admitted and %d bound", a, group, b, c)
	}
	waitFor(t, time.Minute, what(all, admitted, bound), func() (bool, string) {
		a, b, c := w.members(t, group)
		return a == all && b == admitted && c == bound, what(a, b, c) + "\n" + w.pending(t)
	})
}

// phase reports as kubelet does that the pods of a group have this phase.
func (w *KueueWorld) phase(t *testing.T, group string, phase corev1.PodPhase) {
	t.Helper()
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Labels["kueue.x-k8s.io/pod-group-name"] != group || pods[i].Spec.NodeName == "" || isTerminated(&pods[i]) {
			continue
		}
		status := fmt.Sprintf(`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q}]}}`, phase, ready)
		_, err := plane.admin.CoreV1().Pods(w.namespace).Patch(w.ctx, pods[i].Name, types.StrategicMergePatchType,
			[]byte(status), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fill binds a pod that is in no queue to a card, on which no member of a group then fits.
func (w *KueueWorld) fill(t *testing.T) {
	t.Helper()
	create(w.ctx, t, w.pod("full").share(60, 8000).graceless())
	waitBound(w.ctx, t, w.namespace, "full")
}

func (w *KueueWorld) cardsInUse(t *testing.T) (core []int) {
	t.Helper()
	for _, card := range w.shownCards(t) {
		core = append(core, card.Core["used"])
	}
	return core
}

func (w *KueueWorld) explains(t *testing.T, pod, sentence string) {
	t.Helper()
	if said := w.show(t, "explain", pod, "-n", w.namespace); !strings.Contains(said, sentence) {
		t.Errorf("explain does not say %q about %s:\n%s", sentence, pod, said)
	}
}

// Kueue admits a group when all its pods exist and the queue has shares for all. kube-scheduler binds it whole or not
// at all where its pods are a PodGroup too.
func TestKueueGroupsAreBoundWholeOrNotAtAll(t *testing.T) {
	world := newKueueWorld(t)
	t.Run("fits", world.testFits)
	t.Run("cards", world.testCards)
	t.Run("quota", world.testQuota)
	t.Run("evicted", world.testEvicted)
	world.history.check(world.ctx, t)
}

func (w *KueueWorld) testFits(t *testing.T) {
	for i := range queuedMembers - 1 {
		create(w.ctx, t, w.member("fits", fmt.Sprint("fits-", i)))
	}
	time.Sleep(2 * time.Second)
	w.waitMembers(t, "fits", queuedMembers-1, 0, 0)
	create(w.ctx, t, w.member("fits", "fits-last"))
	w.waitMembers(t, "fits", queuedMembers, queuedMembers, queuedMembers)
	if used := fmt.Sprint(w.cardsInUse(t)); used != "[90 90]" {
		t.Errorf("the cards are used to %s percent", used)
	}
	w.phase(t, "fits", corev1.PodSucceeded)
}

// The sums of the cards suffice for three members, and the cards for two.
func (w *KueueWorld) testCards(t *testing.T) {
	w.fill(t)
	calls := func() float64 {
		return w.extender.metrics(t).with("mgpu_extender_verb_duration_seconds_count", `verb="filter"`)
	}
	before := calls()
	w.createGroup(t, "cards", queuedMembers, "")
	for i := range queuedMembers {
		create(w.ctx, t, w.member("cards", fmt.Sprint("cards-", i)).inGroup("cards"))
	}
	waitFor(t, time.Minute, "kube-scheduler to try the group twice", func() (bool, string) {
		return calls() >= before+2*queuedMembers, fmt.Sprint(calls()-before, " calls of filter\n", w.pending(t))
	})
	w.waitMembers(t, "cards", queuedMembers, queuedMembers, 0)
	w.explains(t, "cards-0", "has 4 pods pending, and there are cards for 2 pods like this one")
	deleteNow(w.ctx, t, w.namespace, "full")
	w.waitMembers(t, "cards", queuedMembers, queuedMembers, queuedMembers)
	w.phase(t, "cards", corev1.PodSucceeded)
}

// The queue has 800 percent.
func (w *KueueWorld) testQuota(t *testing.T) {
	const members = 9
	for i := range members {
		create(w.ctx, t, w.pod(fmt.Sprint("quota-", i)).wholeCards(1).queued("quota", members))
	}
	waitFor(t, time.Minute, "Kueue to refuse the group", func() (bool, string) {
		object, err := w.kueue.resource("workloads", w.namespace).Get(w.ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		said := fmt.Sprint(object.Object["status"])
		return strings.Contains(said, "QuotaReserved") && strings.Contains(said, coreResource), said
	})
	w.waitMembers(t, "quota", members, 0, 0)
	w.explains(t, "quota-0", "Scheduling is blocked due to non-empty scheduling gates")
}

// Without a PodGroup, kube-scheduler binds the pods of a group one by one. Kueue evicts them together if they do not
// all get ready in time, and admits the group again when its pods have been created again.
func (w *KueueWorld) testEvicted(t *testing.T) {
	w.kueue.restart(t, "waitForPodsReady: {timeout: 15s, requeuingStrategy: {backoffBaseSeconds: 1}}")
	w.fill(t)
	createMembers := func(round string) {
		for i := range queuedMembers {
			create(w.ctx, t, w.member("evicted", fmt.Sprint("evicted-", round, "-", i)))
		}
	}
	createMembers("first")
	w.waitMembers(t, "evicted", queuedMembers, queuedMembers, 2)
	w.waitMembers(t, "evicted", 0, 0, 0)
	w.phase(t, "evicted", corev1.PodFailed)
	waitFor(t, time.Minute, "the cards of the group to be free", func() (bool, string) {
		used := fmt.Sprint(w.cardsInUse(t))
		return used == "[60 0]" || used == "[0 60]", used
	})
	deleteNow(w.ctx, t, w.namespace, "full")
	createMembers("second")
	w.waitMembers(t, "evicted", queuedMembers, queuedMembers, queuedMembers)
	w.phase(t, "evicted", corev1.PodRunning)
	time.Sleep(20 * time.Second)
	w.waitMembers(t, "evicted", queuedMembers, queuedMembers, queuedMembers)
}
