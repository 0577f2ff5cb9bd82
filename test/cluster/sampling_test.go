package cluster

import (
	"context"
	"fmt"
	"testing"
)

// kube-scheduler examines these nodes for a pod until 100 pass its own filters. It rejects the full ones, and
// may evict pods from them.
const (
	sampledNodes = 150
	fullNodes    = 20
)

// occupyPartly leaves nothing free on the first nodes. On the others, 60 % of each of the two cards is in use: a pod
// with 50 % of a card fits the node's total, but no card.
func occupyPartly(namespace string, nodes []string) []placedPod {
	var placed []placedPod
	for i, node := range nodes {
		core := 60
		if i < fullNodes {
			core = 100
		}
		for card := range 2 {
			pod := newPod(namespace, fmt.Sprintf("low-%d-%d", i, card)).share(core, 1000).cpu("100m")
			placed = append(placed, placedPod{pod, node, map[string]string{"c0": fmt.Sprint(card)}})
		}
	}
	return placed
}

// A pod that fits only on a node that kube-scheduler did not examine is tried again until it finds the node,
// and no pod of lower priority is evicted for it.
func TestAPodFindsTheNodeThatKubeSchedulerDidNotExamine(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	createPriorityClass(ctx, t, "sampling-high", 1000)
	extender := plane.startExtender(t)
	nodes := make([]string, sampledNodes)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("gpu-%03d", i)
	}
	inParallel(nodes, func(name string) { plane.createNode(ctx, t, name, 2) })
	place(ctx, t, namespace, occupyPartly(namespace, nodes))
	plane.createNode(ctx, t, "zz-free", 2)
	extender.waitNodes(t, sampledNodes+1)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	for i := range 4 {
		name := fmt.Sprint("high-", i)
		create(ctx, t, newPod(namespace, name).share(50, 1000).cpu("100m").priorityClass("sampling-high"))
		if node := waitBound(ctx, t, namespace, name).Spec.NodeName; node != "zz-free" {
			t.Errorf("%s is on %s, want the only node with a free card", name, node)
		}
	}
	pods, err := list(ctx, namespace)
	if err != nil || len(pods) != 2*sampledNodes+4 {
		t.Errorf("%d pods are left, want all of the %d: %v", len(pods), 2*sampledNodes+4, err)
	}
	metrics := extender.metrics(t)
	t.Logf("%.0f calls of filter for 4 pods, %.0f requeues", metrics.with(verbSeconds+"_count", `verb="filter"`),
		metrics.with("mgpu_extender_requeues_total"))
}
