package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Kubelet before 1.34 lists the devices of pods that have ended (kubernetes/kubernetes#132020).
func TestNodeEndedPodsLeaveTheirCards(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	ended := map[string]corev1.PodPhase{"succeeds": corev1.PodSucceeded, "fails": corev1.PodFailed}
	world.createBound(t, world.pod("succeeds").share(100, cardMemoryMiB).endingWith(0), "0")
	world.createBound(t, world.pod("fails").share(100, cardMemoryMiB).endingWith(1), "1")
	checkEnded := func() {
		for name, phase := range ended {
			waitFor(t, podRunningLimit, "pod "+name+" to end", func() (bool, string) {
				pod := get(world.ctx, t, world.namespace, name)
				return pod.Status.Phase == phase, statusOf(pod) + eventsOf(world.ctx, pod)
			})
		}
	}
	checkEnded()
	t.Logf("kubelet 1.%d lists devices of ended pods: %v", world.node.minor, world.node.listsDevices(t))
	world.createBound(t, world.pod("after-success").wholeCards(1), "0")
	world.createBound(t, world.pod("after-failure").share(60, 8000), "1")
	world.checkViews(t, "after-success", "after-failure")
	checkEnded()
}
