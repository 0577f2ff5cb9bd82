package cluster

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Longer than any refusal is held: kube-scheduler has asked, and was refused, before the extender
// hears of the deletion.
const podsLateBy = time.Second

// newLateWorld is a world whose extender hears of pods later than kube-scheduler does.
func newLateWorld(t *testing.T, nodes int, flags ...string) *World {
	t.Helper()
	late := plane.startLatePods(t, podsLateBy)
	world := &World{ctx: context.Background(), extender: plane.extenderOn(t, "http", http.DefaultClient, flags...)}
	world.extender.follow(late.kubeconfig(t, extenderToken))
	world.extender.start(t)
	world.extender.waitReady(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", nodes)
	world.extender.waitNodes(t, nodes)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

func TestDeletionWakesAPendingPodThoughTheExtenderHearsOfItLate(t *testing.T) {
	world := newLateWorld(t, 1)
	full := world.fillEachCard(t, 60)
	for round, name := range full[:3] {
		waiting := fmt.Sprint("waiting-", round)
		create(world.ctx, t, world.pod(waiting).share(60, 8000))
		waitPending(world.ctx, t, world.namespace, waiting, coreShort)
		deleteNow(world.ctx, t, world.namespace, name)
		waitBound(world.ctx, t, world.namespace, waiting)
	}
	world.history.check(world.ctx, t)
}
