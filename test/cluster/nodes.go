package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	domain          = "vke.volcengine.com"
	coreResource    = domain + "/mgpu-core"
	memoryResource  = domain + "/mgpu-memory"
	assumedKey      = domain + "/assumed"
	indexKeyPrefix  = domain + "/gpu-index-container-"
	multipleGPUKey  = domain + "/container-multiple-gpu"
	cardsKey        = domain + "/mgpu-cards"
	cardMemoryMiB   = 32510
	cardsOfEachNode = 8
)

type cardJSON struct {
	Index     int    `json:"index"`
	UUID      string `json:"uuid"`
	Model     string `json:"model"`
	MemoryMiB int64  `json:"memoryMiB"`
	Health    string `json:"health"`
	Since     string `json:"since"`
}

// NodeShape has the resources of a node.
type NodeShape struct {
	cards         int
	model         string
	cardMemoryMiB int64
	cpuMilli      int64
	memoryMiB     int64
}

func v100Node(cards int) NodeShape { return NodeShape{cards, "V100", cardMemoryMiB, 96_000, 512 << 10} }

// cardsAnnotation returns the annotation of a node with equal healthy cards.
func (s NodeShape) cardsAnnotation(node string) string {
	list := make([]cardJSON, s.cards)
	for i := range list {
		list[i] = cardJSON{i, fmt.Sprintf("GPU-%s-%d", node, i), s.model, s.cardMemoryMiB, "Healthy",
			"2026-01-01T00:00:00Z"}
	}
	text, err := json.Marshal(map[string]any{"version": 1, "cards": list})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s NodeShape) capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.cpuMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.memoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:   resource.MustParse("500"),
		coreResource:          *resource.NewQuantity(int64(s.cards)*100, resource.DecimalSI),
		memoryResource:        *resource.NewQuantity(int64(s.cards)*s.cardMemoryMiB, resource.DecimalSI),
	}
}

func (c *ControlPlane) createNode(ctx context.Context, t testing.TB, name string, cards int) {
	t.Helper()
	c.createNodeOf(ctx, t, name, v100Node(cards))
}

// createNodeOf creates a ready node with healthy cards, and removes it at the end of the test.
func (c *ControlPlane) createNodeOf(ctx context.Context, t testing.TB, name string, shape NodeShape) {
	t.Helper()
	nodes := c.admin.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{cardsKey: shape.cardsAnnotation(name)}}}
	made, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	made.Status.Capacity = shape.capacity()
	made.Status.Allocatable = made.Status.Capacity
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	status, err := json.Marshal(map[string]any{"status": made.Status})
	if err != nil {
		t.Fatal(err)
	}
	// kube-controller-manager may write the Node meanwhile.
	_, err = nodes.Patch(ctx, name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	// The API server adds a taint to every new node.
	_, err = nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// createNodes creates nodes with the names <prefix>00, <prefix>01, ...
func (c *ControlPlane) createNodes(ctx context.Context, t testing.TB, prefix string, count int) []string {
	t.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s%02d", prefix, i)
		c.createNode(ctx, t, names[i], cardsOfEachNode)
	}
	return names
}
