package cluster

import (
	"slices"
	"testing"
	"time"
)

func TestInstallProfilesFollowALabelWithoutARestart(t *testing.T) {
	release := newRelease(t)
	label := domain + "/mgpu-profile"
	release.values["profiles"] = []any{map[string]any{"name": "double", "computeFactor": 2, "minimumCore": 10}}
	t.Cleanup(func() { release.node.setLabel(t, label, "") })
	release.install(t)
	release.callExtender(t)
	release.waitOffered(t)
	before, plugins := release.runShare(t, "before"), release.podsOf(t, "device-plugin")

	release.node.setLabel(t, label, "double")
	waitFor(t, time.Minute, "the node to offer twice the compute", func() (bool, string) {
		core := release.node.object(t).Status.Allocatable[coreResource]
		return core.Value() == 400, core.String()
	})
	// With the first pod at most 180 % of the card.
	names := []string{"a", "b", "c"}
	for _, name := range names {
		pod := release.pod(name).share(50, 1024).annotation(domain+"/gpu-uuid", v100(0).UUID)
		create(release.ctx, t, pod.runs())
	}
	release.checkViews(t, names...)
	release.checkUntouched(t, before)
	if now := release.podsOf(t, "device-plugin"); !slices.Equal(now, plugins) {
		t.Errorf("the pods of the device plugin were %v, and are %v", plugins, now)
	}
}
