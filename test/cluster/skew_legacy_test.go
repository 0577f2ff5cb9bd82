package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// legacyScheduler starts kube-scheduler 1.22 with deploy/scheduler/legacy-policy.json and the address of the
// extender. It runs until the end of the test.
func (c *ControlPlane) legacyScheduler(t *testing.T, extender *Extender) *Process {
	t.Helper()
	binary := os.Getenv("MGPU_LEGACY_SCHEDULER_BINARY")
	if binary == "" {
		t.Skip("MGPU_LEGACY_SCHEDULER_BINARY is not set; test/run.sh skew builds kube-scheduler 1.22 and sets it")
	}
	text, err := os.ReadFile(deployPath("scheduler", "legacy-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "policy.json")
	own := strings.Replace(string(text), "http://127.0.0.1:9800/mgpu", extender.url(), 1)
	if err := os.WriteFile(policy, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	// The API server of these tests is of 1.36, and has no CSIStorageCapacity of v1beta1 any more. From --v=2
	// on, this version writes its configuration to the log, and cannot encode that of a Policy.
	process, err := startProcess("kube-scheduler 1.22", filepath.Join(t.TempDir(), "kube-scheduler.log"), binary,
		"--policy-config-file", policy, "--kubeconfig", c.kubeconfig(schedulerToken), "--leader-elect=false",
		"--feature-gates", "CSIStorageCapacity=false", "--port", "0", "--bind-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(port), "--cert-dir", t.TempDir(), "--v", "1")
	if err != nil {
		t.Fatal(err)
	}
	process.endWithTest(t)
	waitFor(t, time.Minute, "kube-scheduler 1.22 to listen", func() (bool, string) {
		if !process.running() {
			t.Fatalf("kube-scheduler 1.22 ended:\n%s", process.logTail(10))
		}
		connection, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
	return process
}

func TestSkewKubeScheduler122BindsPodsWithTheLegacyPolicy(t *testing.T) {
	ctx := context.Background()
	extender := plane.startExtender(t)
	plane.legacyScheduler(t, extender)
	namespace := newNamespace(ctx, t)
	plane.createNode(ctx, t, "gpu-legacy", cardsOfEachNode)
	history := plane.beginHistory(ctx, t, namespace)
	for _, builder := range []*PodBuilder{
		newPod(namespace, "share").share(30, 4000),
		newPod(namespace, "whole-card").wholeCards(1),
		newPod(namespace, "without-cards").container("c0", "", ""),
	} {
		create(ctx, t, builder)
		pod := waitBound(ctx, t, namespace, builder.pod.Name)
		for _, request := range requestsOf(pod) {
			if _, err := cardsOf(pod, request, cardsOfEachNode); err != nil {
				t.Errorf("%s: %v", pod.Name, err)
			}
		}
	}
	create(ctx, t, newPod(namespace, "too-much").wholeCards(100))
	waitPending(ctx, t, namespace, "too-much", "Insufficient "+coreResource)
	history.check(ctx, t)
}

// The policy makes kube-scheduler ask the extender to preempt, so that the victims free a whole card.
func TestSkewKubeScheduler122PreemptsWithTheLegacyPolicy(t *testing.T) {
	ctx := context.Background()
	extender := plane.startExtender(t)
	plane.legacyScheduler(t, extender)
	namespace := newNamespace(ctx, t)
	plane.createNode(ctx, t, "gpu-legacy", 1)
	create(ctx, t, newPod(namespace, "victim").share(30, 4000).graceless())
	waitBound(ctx, t, namespace, "victim")
	create(ctx, t, newPod(namespace, "preemptor").wholeCards(1).priorityClass("system-cluster-critical"))
	waitBound(ctx, t, namespace, "preemptor")
	if _, err := plane.admin.CoreV1().Pods(namespace).Get(ctx, "victim", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the victim: %v, want that it was evicted", err)
	}
}
