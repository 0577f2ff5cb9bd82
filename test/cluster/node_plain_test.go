package cluster

import (
	"context"
	"testing"
)

func TestNodeRunsAPodWithoutCards(t *testing.T) {
	ctx, node := context.Background(), realNode(t)
	namespace := newNamespace(ctx, t)
	builder := newPod(namespace, "plain").container("c0", "", "").runs()
	builder.pod.Spec.NodeName = nodeName
	create(ctx, t, builder)
	pod := waitRunning(ctx, t, namespace, "plain")
	if view := node.viewOf(t, pod, "c0"); len(view.devices) != 0 || view.environment["PATH"] == "" {
		t.Errorf("sees %v and %v, want no devices and an environment", view, view.environment)
	}
}
