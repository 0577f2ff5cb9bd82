package cluster

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var memoryByKubelet = []string{"--memory-resource", "device-plugin"}

func TestNodeMemoryAsADevicePluginResource(t *testing.T) {
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

func TestNodeMemoryModeChangedWhilePodsRun(t *testing.T) {
	world := newNodeWorld(t, v100s(2), memoryByKubelet...)
	pods := world.runningPods(t, "0")
	for i, flags := range [][]string{nil, memoryByKubelet} {
		if code, ended := world.plugin.process.Terminate(15 * time.Second); !ended || code != 0 {
			t.Errorf("ended with %d (in time: %v)", code, ended)
		}
		world.plugin.flags = flags
		world.plugin.startAgain(t)
		name := fmt.Sprint("after-change-", i)
		world.createBound(t, world.pod(name).share(20, 3000), "1")
		world.checkViews(t, name)
		if after := world.waitRunning(t, pods[0].Name); !sameContainers(pods[0], after) {
			t.Errorf("%s was started again", pods[0].Name)
		}
	}
	world.node.killContainer(t, pods[0], "c0")
	world.checkView(t, world.waitRestarted(t, pods[0].Name, 1))
}

// Somebody else's change of the node is put right again.
func TestNodeCapacityIsReconciled(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	_, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, nodeName, types.MergePatchType,
		[]byte(fmt.Sprintf(`{"status":{"capacity":{%q:"7"}}}`, memoryResource)), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	world.node.forgetCards(t)
	world.plugin.waitOffered(t)
}

// 8 cards of 80 GiB are 655,360 devices of 1 MiB, and kubelet takes messages of 4 MiB.
func TestNodeMemoryThatKubeletCannotTakeIsRefusedAtStart(t *testing.T) {
	node := realNode(t)
	var cards []TestCard
	for i := range 8 {
		cards = append(cards, cardOf(i, "H100", 81920))
	}
	plugin := devicePluginOn(t, node, cards, memoryByKubelet...)
	failsSaying(t, pluginBinary(t), "655360", plugin.arguments()...)
	failsSaying(t, pluginBinary(t), "--memory-resource=node-status", plugin.arguments()...)
}
