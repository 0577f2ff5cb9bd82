package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// After `kubectl delete node`, kubelet registers the node with its capacity before the device plugin has written which
// cards there are. Meanwhile no pod is bound to cards that do not exist or are cordoned.
func TestANodeThatIsRegisteredAgainHasNoCardsByItsCapacity(t *testing.T) {
	world := newWorld(t, 0)
	ctx, nodes := world.ctx, plane.admin.CoreV1().Nodes()
	shape := v100Node(3)
	plane.createNodeOf(ctx, t, "gpu-00", shape)
	// Card 1 was lost, and its index is not given to another card. Card 2 is cordoned.
	cards := strings.Replace(shape.cardsAnnotation("gpu-00"), `{"index":1,"uuid":"GPU-gpu-00-1"`, `{"index":7,"uuid":"GPU-gpu-00-7"`, 1)
	annotations, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{cardsKey: cards, domain + "/mgpu-cordoned-cards": "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	annotate := func() {
		if _, err := nodes.Patch(ctx, "gpu-00", types.MergePatchType, annotations, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, time.Minute, "the cards of the annotation", func() (bool, string) {
			_, body, err := world.extender.get("/inspect/node?name=gpu-00")
			return err == nil && strings.Contains(body, "GPU-gpu-00-7"), fmt.Sprint(body, err)
		})
	}
	annotate()
	if err := nodes.Delete(ctx, "gpu-00", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-00"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Spec.Taints = nil
	if made, err = nodes.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	made.Status.Capacity = shape.capacity()
	made.Status.Allocatable = made.Status.Capacity
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Minute, "the extender to see the new node", func() (bool, string) {
		status, body, err := world.extender.get("/inspect/node?name=gpu-00")
		return err == nil && status == http.StatusOK && !strings.Contains(body, "GPU-gpu-00-7"), fmt.Sprint(status, body, err)
	})
	for i := range 3 {
		create(ctx, t, world.pod(fmt.Sprint("p-", i)).share(100, 8000))
	}
	waitFor(t, time.Minute, "the pods to be rejected", func() (bool, string) {
		conditions := ""
		for i := range 3 {
			pod := get(ctx, t, world.namespace, fmt.Sprint("p-", i))
			if pod.Spec.NodeName != "" {
				t.Fatalf("%s is bound to card %q before the node has its annotation", pod.Name, pod.Annotations[indexKeyPrefix+"c0"])
			}
			conditions += scheduledCondition(pod) + "\n"
		}
		return strings.Count(conditions, "node(s) had no cards") == 3, conditions
	})
	annotate()
	var bound []string
	waitFor(t, time.Minute, "two pods to be bound", func() (bool, string) {
		bound = nil
		for i := range 3 {
			if pod := get(ctx, t, world.namespace, fmt.Sprint("p-", i)); pod.Spec.NodeName != "" {
				bound = append(bound, pod.Annotations[indexKeyPrefix+"c0"])
			}
		}
		return len(bound) >= 2, fmt.Sprint(bound)
	})
	slices.Sort(bound)
	if !slices.Equal(bound, []string{"0", "7"}) {
		t.Errorf("the pods have the cards %v, want 0 and 7", bound)
	}
}
