package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The type of the condition with which the extender changes the resourceVersion of a pod.
const touchedCondition = domain + "/mgpu-bind-checked"

// newHeldWorld returns a world with one node. Binds of the pod "late" stay in a proxy.
func newHeldWorld(t *testing.T) (*World, *HeldBinds) {
	t.Helper()
	binds := plane.startHeldBinds(t, "late")
	world := &World{ctx: context.Background(), extender: plane.extenderOn(t, "http", http.DefaultClient)}
	world.extender.follow(proxyKubeconfig(t, binds.url, extenderToken))
	world.extender.start(t)
	world.extender.waitReady(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", 1)
	world.extender.waitNodes(t, 1)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	create(world.ctx, t, world.pod("late").wholeCards(cardsOfEachNode))
	waitFor(t, time.Minute, "a bind to be kept", func() (bool, string) {
		return binds.count() > 0, fmt.Sprint(binds.count())
	})
	return world, binds
}

// deliverLate gives the cards of the pod "late" to another pod, then delivers its binds.
func (w *World) deliverLate(t *testing.T, binds *HeldBinds) {
	t.Helper()
	create(w.ctx, t, w.pod("next").wholeCards(cardsOfEachNode))
	waitBound(w.ctx, t, w.namespace, "next")
	statuses, bodies := plane.deliver(t, binds)
	for i, status := range statuses {
		if status != http.StatusConflict {
			t.Errorf("a late bind: %d %.300s, want 409", status, bodies[i])
		}
	}
	t.Logf("%d late binds were refused", len(statuses))
	late := get(w.ctx, t, w.namespace, "late")
	if late.Spec.NodeName != "" {
		t.Errorf("the pod was bound to %s by a late bind", late.Spec.NodeName)
	}
	if !isTouched(late) {
		t.Errorf("the pod has no condition %s: %v", touchedCondition, late.Status.Conditions)
	}
	w.history.check(w.ctx, t)
}

func isTouched(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == touchedCondition {
			return true
		}
	}
	return false
}

// The response to a bind is lost. The API server gets the bind much later, when the cards have been
// given to another pod.
func TestALateBindTakesNoCardThatWasGivenAway(t *testing.T) {
	world, binds := newHeldWorld(t)
	world.deliverLate(t, binds)
	if touches := world.extender.metrics(t).with("mgpu_extender_pod_touches_total", `result="unbound"`); touches == 0 {
		t.Error("no pod was touched")
	}
}

// The same for a bind of a process that was killed: the next process does not know of it.
func TestABindOfAKilledExtenderIsRefusedAfterItsRestart(t *testing.T) {
	world, binds := newHeldWorld(t)
	world.extender.killAndRestart(t)
	world.extender.waitReady(t)
	world.deliverLate(t, binds)
}

// A process that is replaced, and not killed, binds nothing more and ends with an error.
func TestAReplacedExtenderEndsWithAnError(t *testing.T) {
	world := newWorld(t, 1)
	old := world.extender
	pod := create(world.ctx, t, world.pod("some").share(10, 1024).scheduler("nobody"))
	next := plane.extenderOn(t, "http", http.DefaultClient)
	next.start(t)
	next.waitReady(t)
	body := fmt.Sprintf(`{"PodName":"some","PodNamespace":%q,"PodUID":%q,"Node":"gpu-00"}`, pod.Namespace, pod.UID)
	status, answer, err := old.post("/mgpu/bind", strings.NewReader(body))
	if err != nil || !strings.Contains(answer, "no longer holds the lease") {
		t.Errorf("%d %s %v, want an error about the lease", status, answer, err)
	}
	waitEnded(t, old.process)
	if code := old.process.command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("ended with code %d, want 1:\n%s", code, old.process.logTail(5))
	}
	old.process = nil // its end is not checked again
	lease, err := plane.admin.CoordinationV1().Leases("kube-system").Get(world.ctx, "mgpu-extender", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("the lease: %v %v, want a holder", lease, err)
	}
	if get(world.ctx, t, world.namespace, "some").Spec.NodeName != "" {
		t.Error("the replaced extender has bound the pod")
	}
}
