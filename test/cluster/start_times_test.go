package cluster

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// gated returns a pod that a queue holds back, as Kueue does.
func gated(pod *PodBuilder) *PodBuilder {
	pod.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
	return pod
}

// A start changes the pods that an earlier process may have bound, and no others.
func TestAStartDoesNotWaitForGatedPods(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	var pods []*PodBuilder
	for i := range 40 {
		pods = append(pods, gated(newPod(namespace, fmt.Sprint("gated-", i)).share(10, 1024).scheduler("nobody")))
	}
	createAll(ctx, t, pods)
	create(ctx, t, newPod(namespace, "pending").share(10, 1024).scheduler("nobody"))
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.start(t)
	extender.waitReady(t)
	touched := 0
	all, err := list(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if isTouched(&all[i]) {
			touched++
		}
	}
	if touched != 1 || !isTouched(get(ctx, t, namespace, "pending")) {
		t.Errorf("%d pods were changed, want the one without gates", touched)
	}
}

// TestStartTimes runs only where MGPU_START_PENDING is set; bench/start.sh sets it. It checks no times.
func TestStartTimes(t *testing.T) {
	counts := numbersOf(t, "MGPU_START_PENDING", "start.sh", 1, 99999)
	ctx := context.Background()
	plane.createNodes(ctx, t, "gpu-", 2)
	start := func(what string) {
		extender := plane.extenderOn(t, "http", http.DefaultClient)
		began := time.Now()
		extender.start(t)
		if err := poll(15*time.Minute, "ready", func() (bool, string) {
			status, body, err := extender.get("/readyz")
			return err == nil && status == http.StatusOK, fmt.Sprint(body, err)
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: ready after %v", what, time.Since(began).Round(10*time.Millisecond))
		extender.end(t)
		extender.process = nil
	}
	start("no pending pods")
	for _, count := range counts {
		for _, kind := range []string{"gated", "pending"} {
			namespace := fmt.Sprintf("start-%s-%d", kind, count)
			if err := plane.createNamespace(ctx, namespace); err != nil {
				t.Fatal(err)
			}
			var pods []*PodBuilder
			for i := range count {
				pod := newPod(namespace, fmt.Sprintf("p-%05d", i)).share(10, 1024).scheduler("nobody")
				if kind == "gated" {
					pod = gated(pod)
				}
				pods = append(pods, pod)
			}
			createAll(ctx, t, pods)
			for range 3 {
				start(fmt.Sprint(count, " ", kind, " pods"))
			}
			removePods(namespace)
			if err := poll(15*time.Minute, "the pods to be deleted", func() (bool, string) {
				left, err := list(ctx, namespace)
				return err == nil && len(left) == 0, fmt.Sprint(len(left), " ", err)
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
