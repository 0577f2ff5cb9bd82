package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The policy packs pods on the node that has some already. kube-scheduler's own scores decide for pods that
// prefer another one, and for no others.
func TestPreferencesChooseTheNode(t *testing.T) {
	world := newWorld(t, 3)
	for _, node := range world.nodes {
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"host":%q}}}`, node)
		if _, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, node, types.MergePatchType, label,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	packed := func(name string) *PodBuilder {
		return world.pod(name).share(20, 1000).annotation(domain+"/mgpu-policy", "binpack")
	}
	nodeOf := func(pod *PodBuilder) string {
		create(world.ctx, t, pod)
		return waitBound(world.ctx, t, world.namespace, pod.pod.Name).Spec.NodeName
	}
	onFirst := packed("first")
	onFirst.pod.Spec.NodeSelector = map[string]string{"host": world.nodes[0]}
	first := nodeOf(onFirst)
	if got := nodeOf(packed("second")); got != first {
		t.Errorf("a pod without preferences is on %s, want %s, which the policy packs", got, first)
	}
	near := packed("near")
	near.pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: world.nodes[2:]}}}}}}}
	if got := nodeOf(near); got != world.nodes[2] {
		t.Errorf("a pod that prefers %s is on %s", world.nodes[2], got)
	}
	nodes := map[string]bool{}
	for i := range 3 {
		replica := packed(fmt.Sprint("replica-", i))
		replica.pod.Labels = map[string]string{"app": "spread"}
		replica.pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
			TopologyKey: "host", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: replica.pod.Labels}}}
		nodes[nodeOf(replica)] = true
	}
	if len(nodes) != 3 {
		t.Errorf("three replicas that are to be spread are on %v", nodes)
	}
	world.history.check(world.ctx, t)
}
