package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// placedPod is a pod that the test binds as the extender would have done it.
type placedPod struct {
	pod   *PodBuilder
	node  string
	cards map[string]string // by container
}

// place creates the pods and binds them.
func place(ctx context.Context, t *testing.T, namespace string, placed []placedPod) {
	t.Helper()
	pods := make([]*PodBuilder, len(placed))
	for i, one := range placed {
		pods[i] = one.pod.scheduler("none").graceless()
	}
	createAll(ctx, t, pods)
	inParallel(placed, func(one placedPod) {
		annotations := map[string]string{assumedKey: "true"}
		for container, cards := range one.cards {
			annotations[indexKeyPrefix+container] = cards
		}
		err := plane.admin.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: one.pod.pod.Name, Annotations: annotations},
			Target:     corev1.ObjectReference{Kind: "Node", Name: one.node}}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}

// createManyNodes creates nodes in parallel, and removes them at the end of the test.
func (c *ControlPlane) createManyNodes(ctx context.Context, t *testing.T, count int) []string {
	t.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("gpu-%05d", i)
	}
	inParallel(names, func(name string) { c.createNode(ctx, t, name, cardsOfEachNode) })
	return names
}

// inParallel calls the function for each item, eight at a time, approximately in order.
func inParallel[Item any](items []Item, run func(Item)) {
	queue := make(chan Item)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for item := range queue {
				run(item)
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	group.Wait()
}
