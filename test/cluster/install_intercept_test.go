package cluster

import "testing"

// What the chart installs without any value: no card of a file has a driver that limits memory.
func TestInstallLimitsTheMemoryOfContainers(t *testing.T) {
	release := newRelease(t)
	release.plugin.useFakeGPU(t)
	release.install(t)
	release.callExtender(t)
	release.waitOffered(t)
	create(release.ctx, t, release.pod("share").share(30, 2048).running(twoClients).runs())
	pod := release.waitRunning(t, "share")
	views := release.node.cudaViews(t, pod, "c0")
	if len(views) != 2 || views[0].total != 2048 || views[1].result != outOfMemory {
		t.Errorf("two programs in a share of 2048 MiB saw %v", views)
	}
	if sum := views[0].allocated + views[1].allocated + 2*fakeContext; sum > 2048 {
		t.Errorf("two programs have %d of 2048 MiB", sum)
	}
}
