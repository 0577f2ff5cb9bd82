package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rejectedByKubelet returns a pod that kubelet rejects because of its node selector, without creating a
// sandbox. The pod stays bound to the node, and the device plugin reads it.
func rejectedByKubelet(pod string) string {
	return strings.Replace(pod, `"spec":{`, `"spec":{"nodeSelector":{"none":"none"},`, 1)
}

func TestNodePodsOfATenantDoNotHideThoseOfOthers(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	world.startsAndEnds(t, "before")
	for i := range 40 {
		long := rejectedByKubelet(longPod(fmt.Sprint("long-", i), nodeName))
		if err := createRaw(world.ctx, t, world.namespace, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := createRaw(world.ctx, t, world.namespace, rejectedByKubelet(deepPod("deep", nodeName, 120))); err != nil {
		t.Fatal(err)
	}
	world.startsAndEnds(t, "while-it-watches")
	world.plugin.kill()
	world.plugin.startAgain(t)
	world.startsAndEnds(t, "after-a-restart")
	if _, body, err := world.plugin.get("/readyz"); err != nil || strings.Contains(body, "unreadable") {
		t.Errorf("/readyz returned %s, %v", body, err)
	}
	t.Log("mgpu-device-plugin: ", world.plugin.process.memory())
}

// startsAndEnds checks that a pod gets a whole card, and that the card is free after the pod has ended.
func (w *NodeWorld) startsAndEnds(t *testing.T, name string) {
	t.Helper()
	w.createBound(t, w.pod(name).wholeCards(1), "0")
	w.checkViews(t, name)
	w.remove(t, name)
	waitFor(t, 60*time.Second, "the record of "+name+" to be removed", func() (bool, string) {
		records := w.plugin.records()
		return len(records) == 0, strings.Join(records, ", ")
	})
}
