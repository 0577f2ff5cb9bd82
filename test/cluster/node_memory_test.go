package cluster

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetMemoryAtEnd removes mgpu-memory from kubelet's devices at the end of the test. Otherwise kubelet
// would report 0 for 5 minutes after the plugin has stopped.
func forgetMemoryAtEnd(t *testing.T) {
	node := realNode(t)
	t.Cleanup(func() {
		if err := node.forgetDevices(); err != nil {
			t.Error(err)
		}
	})
}

func TestNodeMemoryAsADevicePluginResource(t *testing.T) {
	forgetMemoryAtEnd(t)
	world := newScheduledWorld(t, v100s(2), memoryByKubelet...)
	for name, builder := range map[string]*PodBuilder{
		"share": world.pod("share").share(30, 4000), "pair": world.pod("pair").share(10, 1000).share(20, 3000),
		"init": world.pod("init").initShare(20, 2000).share(30, 2000)} {
		create(world.ctx, t, builder.runs())
		world.checkViews(t, name)
	}
	if capacity := world.node.object(t).Status.Capacity[memoryResource]; capacity.Value() != 2*cardMemoryMiB {
		t.Errorf("capacity is %s", capacity.String())
	}
}

// After a change to device-plugin, new pods start at once. After a change back, only running pods
// continue until kubelet has removed the resource.
func TestNodeMemoryModeChangedWhilePodsRun(t *testing.T) {
	forgetMemoryAtEnd(t)
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.changeFlags(t, memoryByKubelet...)
	world.plugin.waitOffered(t)
	world.checkUnaffected(t, pods, "2")

	pods[0] = world.waitRunning(t, pods[0].Name)
	world.changeFlags(t)
	waitFor(t, 2*time.Minute, "kubelet to take no pods for now", func() (bool, string) {
		memory := world.node.object(t).Status.Allocatable[memoryResource]
		return memory.IsZero(), memory.String()
	})
	world.checkSame(t, pods)
	world.node.killContainer(t, pods[0], "c0")
	pods[0] = world.waitRestarted(t, pods[0].Name, pods[0].Status.ContainerStatuses[0].RestartCount+1)
	world.checkView(t, pods[0])

	world.changeFlags(t, memoryByKubelet...)
	world.plugin.waitOffered(t)
	world.checkSame(t, pods)
	world.createBound(t, world.pod("last").share(20, 3000), "1")
	world.checkViews(t, "last")
}

// changeFlags restarts the plugin with other flags.
func (w *NodeWorld) changeFlags(t testing.TB, flags ...string) {
	t.Helper()
	if code, ended := w.plugin.process.Terminate(endsIn); !ended || code != 0 {
		t.Errorf("mgpu-device-plugin ended with %d (in time: %v)", code, ended)
	}
	w.plugin.flags = flags
	w.plugin.start(t)
	w.plugin.waitReady(t)
}

// The plugin reverts changes of the capacity.
func TestNodeCapacityIsReconciled(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	_, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, nodeName, types.MergePatchType,
		[]byte(fmt.Sprintf(`{"status":{"capacity":{%q:"7"}}}`, memoryResource)), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	world.node.forgetCards(t)
	world.plugin.waitOffered(t)
	waitFor(t, 2*time.Minute, "the capacity of the cards", func() (bool, string) {
		memory := world.node.object(t).Status.Capacity[memoryResource]
		return memory.Value() == 2*cardMemoryMiB, memory.String()
	})
}

// 8 cards of 80 GiB are 655,360 devices of 1 MiB, and kubelet accepts messages of up to 4 MiB.
func TestNodeTooMuchMemoryForKubeletIsRejectedAtStart(t *testing.T) {
	node := realNode(t)
	var cards []TestCard
	for i := range 8 {
		cards = append(cards, cardOf(i, "H100", 81920))
	}
	plugin := devicePluginOn(t, node, cards, memoryByKubelet...)
	checkStartError(t, pluginBinary(t), "655360", plugin.arguments()...)
	checkStartError(t, pluginBinary(t), "--memory-resource=node-status", plugin.arguments()...)
}
