package cluster

import (
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that is deleted with grace period 0 is gone at the API server at once, and kubelet lists it no longer,
// while its containers run for some seconds. Only their processes show that the card is in use.
func TestNodeAPodDeletedAtOnceKeepsItsCardWhileItRuns(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	old := world.createBound(t, world.pod("old").share(60, 2000).ignoringTermination(), "0")
	world.checkViews(t, "old")
	pid := world.node.pidOf(t, old, "c0")
	now := int64(0)
	err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, "old", metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Fatal("the container ended at once, so that this test shows nothing")
	}
	world.createBound(t, world.pod("new").share(60, 2000), "0")
	waitFor(t, podRunningLimit, "pod new to run", func() (bool, string) {
		// In this order: a process that is found after the pod was seen running has run before it, too.
		pod := get(world.ctx, t, world.namespace, "new")
		if oldRuns := syscall.Kill(pid, 0) == nil; allRun(pod) && oldRuns {
			t.Fatal("the containers of both pods run, with 120 % of the card")
		}
		return allRun(pod), statusOf(pod) + eventsOf(world.ctx, pod)
	})
	world.checkViews(t, "new")
}
