package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This delay is longer than any delay of a rejection, so that kube-scheduler tries a pod before the
// extender receives the deletion.
const podsLateBy = time.Second

// newLateWorld returns a world with one node. Its extender receives changes of pods later than
// kube-scheduler does.
func newLateWorld(t *testing.T, by time.Duration, flags ...string) *World {
	t.Helper()
	late := plane.startLatePods(t, by)
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
	for _, by := range []time.Duration{podsLateBy, 7 * podsLateBy} {
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

func TestRequeueWithoutTheRightIsLoggedAndCounted(t *testing.T) {
	world := newLateWorld(t, podsLateBy, "--requeue-namespace", "default")
	full := world.fillEachCard(t, 60)
	world.strand(t, full[0], "waiting")
	waitFor(t, time.Minute, "a requeue to be refused", func() (bool, string) {
		refused := world.extender.metrics(t).with("mgpu_extender_requeues_total", `result="refused"`)
		return refused > 1, fmt.Sprint(refused)
	})
	log := world.extender.process.logTail(1000)
	if logged := strings.Count(log, "pods cannot be requeued"); logged != 1 || !strings.Contains(log, "deploy/rbac/extender.yaml") {
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
