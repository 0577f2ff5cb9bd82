package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Both nodes are drained in turn, and then all pods of mgpu are replaced, while pods are created. Each of
// these ends under the PodDisruptionBudget, a replica is ready at any time, and every pod gets its share.
func TestInstallDrainsTwoNodesUnderTheBudget(t *testing.T) {
	release := newRelease(t)
	second := release.node.startSecond(t)
	second.importPrograms(t)
	release.install(t)
	release.callExtender(t)
	release.waitOffered(t)
	release.waitLeader(t, "")
	on := release.nodesOfExtender(t)
	if len(on) != 2 || on[0] == on[1] {
		t.Fatalf("the replicas are on the nodes %v, want one on each", on)
	}
	untilNow := release.watchReadyExtenders(t)
	for _, node := range []string{second.name, release.node.name} {
		release.kubectl(t, "cordon", node)
		create(release.ctx, t, release.pod("during-drain-of-"+node).share(1, 256).runs())
		release.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
		release.kubectl(t, "uncordon", node)
		release.waitRunning(t, "during-drain-of-"+node)
		release.waitGood(t)
		untilNow("the drain of " + node)
	}
	create(release.ctx, t, release.pod("during-update").share(1, 256).runs())
	release.kubectl(t, "rollout", "restart", "deployment/mgpu-extender", "--namespace", releaseNamespace)
	release.kubectl(t, "rollout", "status", "deployment/mgpu-extender", "--namespace", releaseNamespace, "--timeout=180s")
	release.waitRunning(t, "during-update")
	untilNow("the rolling update")
}

// nodesOfExtender returns the nodes of the replicas that do not end.
func (r *Release) nodesOfExtender(t testing.TB) []string {
	t.Helper()
	var nodes []string
	for _, pod := range r.extenderPods(t) {
		if pod.DeletionTimestamp == nil {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

func (r *Release) extenderPods(t testing.TB) []corev1.Pod {
	t.Helper()
	pods, err := plane.admin.CoreV1().Pods(releaseNamespace).List(r.ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=extender"})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// watchReadyExtenders counts the replicas that are ready, until the end of the test. The result fails the
// test if there was a moment without one.
func (r *Release) watchReadyExtenders(t testing.TB) (check func(during string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	var without, looks atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			pods, err := plane.admin.CoreV1().Pods(releaseNamespace).List(ctx,
				metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=extender"})
			if err == nil {
				looks.Add(1)
				if readyPods(pods.Items) == 0 {
					without.Add(1)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func(during string) {
		t.Helper()
		missing, all := without.Swap(0), looks.Swap(0)
		if missing > 0 || all == 0 {
			t.Errorf("%s: no replica was ready in %d of %d looks\n%s", during, missing, all, r.state())
		}
	}
}

func readyPods(pods []corev1.Pod) int {
	ready := 0
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready
}

// kubectl runs kubectl as an administrator.
func (r *Release) kubectl(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := r.asAdministrator(append([]string{"-c", `exec kubectl "$@"`, "kubectl"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s\n%s", arguments, err, output, r.state())
	}
	return string(output)
}
