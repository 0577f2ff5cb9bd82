package cluster

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// useTopologyManager restarts kubelet with the strictest of its policies, under which a container that requests whole
// CPUs has them for itself, until the test ends. kubelet does not start beside the state of another policy.
func (n *Node) useTopologyManager(t *testing.T) {
	t.Helper()
	restart := func(flags ...string) {
		n.kubelet.Kill()
		if err := os.Remove(n.path("kubelet", "cpu_manager_state")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n.restartKubelet(t, flags...)
	}
	t.Cleanup(func() { restart() })
	restart("--topology-manager-policy", "single-numa-node", "--topology-manager-scope", "pod",
		"--cpu-manager-policy", "static", "--reserved-cpus", "0")
}

// The devices of kubelet belong to no card, so the plugin reports no NUMA nodes for them: kubelet's topology manager
// must then admit each pod, and change no card.
func TestNodeTopologyManagerAdmitsPodsWithCards(t *testing.T) {
	node := realNode(t)
	if node.object(t).Status.Capacity.Cpu().Value() < 2 {
		t.Skip("the CPU manager needs a CPU besides the reserved one")
	}
	node.useTopologyManager(t)
	world := newNodeWorld(t, v100s(4))
	guaranteed := world.pod("guaranteed").wholeCards(2)
	limits := guaranteed.pod.Spec.Containers[0].Resources.Limits // its requests too
	limits[corev1.ResourceCPU] = resource.MustParse("1")
	limits[corev1.ResourceMemory] = resource.MustParse("16Mi")
	world.createBound(t, guaranteed, "1,3")
	world.createBound(t, world.pod("share").share(30, 1024), "2")
	world.checkViews(t, "guaranteed", "share")

	state, err := os.ReadFile(node.path("kubelet", "cpu_manager_state"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(state), `"entries"`) {
		t.Fatalf("the CPU manager gave no CPU to the container: %s", state)
	}
}
