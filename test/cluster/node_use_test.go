package cluster

import (
	"fmt"
	"math"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownedBy makes the pod one of a Deployment, as its controller does.
func (b *PodBuilder) ownedBy(deployment string) *PodBuilder {
	const hash = "5d9cdf7f4"
	yes := true
	b.pod.Labels = map[string]string{"pod-template-hash": hash}
	b.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
		Name: deployment + "-" + hash, UID: "9d0e5c3e-53a8-4f3b-a9de-3ab1c0e5a3a1", Controller: &yes}}
	return b
}

const (
	grantedSeconds = "mgpu_container_granted_card_seconds_total"
	usedSeconds    = "mgpu_container_used_card_seconds_total"
	ownerInfo      = "mgpu_container_owner_info"
)

// counted returns both counters of a pod of the world.
func (w *NodeWorld) counted(t testing.TB, metrics Metrics, pod string) (granted, used float64) {
	t.Helper()
	of := []string{fmt.Sprintf("pod=%q", pod), fmt.Sprintf("namespace=%q", w.namespace), `container="c0"`, `index="0"`,
		fmt.Sprintf("uuid=%q", v100(0).UUID)}
	return metrics.with(grantedSeconds, of...), metrics.with(usedSeconds, of...)
}

// The processes of one pod use half of its share, and another pod does nothing.
func TestNodeCountsTheUseOfEachContainer(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	world.createBound(t, world.pod("busy").share(40, 8000).ownedBy("web"), "0")
	world.createBound(t, world.pod("idle").share(30, 4000), "0")
	busy := world.waitRunning(t, "busy")
	world.waitRunning(t, "idle")
	world.uses(t, map[*corev1.Pod]int64{busy: 500}, 100)

	world.checkCountersWhileRunning(t)
	world.checkCountersAfterTheEnd(t)
	world.checkCountersAfterAnUpgrade(t)
}

func (w *NodeWorld) checkCountersWhileRunning(t *testing.T) {
	t.Helper()
	w.waitMetric(t, 0.2, "mgpu_container_sm_utilization_ratio", `pod="busy"`)
	first := w.plugin.metrics(t)
	grantedBefore, usedBefore := w.counted(t, first, "busy")
	idleBefore, _ := w.counted(t, first, "idle")
	// Both ends may be up to a sample of five seconds away from each other.
	waitFor(t, 4*sampledLimit, "busy to use half of what it is granted", func() (bool, string) {
		granted, used := w.counted(t, w.plugin.metrics(t), "busy")
		granted, used = granted-grantedBefore, used-usedBefore
		return granted >= 8 && math.Abs(used/granted-0.5) < 0.05, fmt.Sprint(granted, " ", used)
	})
	later := w.plugin.metrics(t)
	busy, _ := w.counted(t, later, "busy")
	idle, idleUsed := w.counted(t, later, "idle")
	if want := (busy - grantedBefore) / 0.4 * 0.3; math.Abs(idle-idleBefore-want) > 0.01 {
		t.Errorf("idle was granted %.3f card seconds, want %.3f as busy was", idle-idleBefore, want)
	}
	if idleUsed != 0 || later.count(usedSeconds, `pod="idle"`) != 1 {
		t.Errorf("idle used %v in %d series, want 0 in one", idleUsed, later.count(usedSeconds, `pod="idle"`))
	}
	for pod, labels := range map[string][]string{"busy": {`owner="web"`, `owner_kind="Deployment"`},
		"idle": {`owner="idle"`, `owner_kind="Pod"`}} {
		of := append(labels, fmt.Sprintf("pod=%q", pod), fmt.Sprintf("namespace=%q", w.namespace))
		if later.with(ownerInfo, of...) != 1 {
			t.Errorf("the owner of %s is not in %v", pod, later.lines(ownerInfo))
		}
	}
}

func (w *NodeWorld) checkCountersAfterTheEnd(t *testing.T) {
	t.Helper()
	w.uses(t, nil, 100)
	deleteNow(w.ctx, t, w.namespace, "busy")
	waitFor(t, 2*sampledLimit, "busy to hold no share", func() (bool, string) {
		metrics := w.plugin.metrics(t)
		return metrics.count(grantedSeconds, `pod="busy"`) == 0, fmt.Sprint(metrics.lines(grantedSeconds))
	})
}

// The counters begin again, and what an earlier version has kept of the use is removed.
func (w *NodeWorld) checkCountersAfterAnUpgrade(t *testing.T) {
	t.Helper()
	before, _ := w.counted(t, w.plugin.metrics(t), "idle")
	if code, in := w.plugin.process.Terminate(endsIn); !in || code != 0 {
		t.Fatalf("mgpu-device-plugin ended with code %d after SIGTERM (in time: %v)", code, in)
	}
	account := w.plugin.path("state", "use.json")
	if err := os.WriteFile(account, []byte(`{"version": 1, "shares": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.plugin.startAgain(t)
	waitFor(t, 2*sampledLimit, "idle to be counted from 0 on", func() (bool, string) {
		now, _ := w.counted(t, w.plugin.metrics(t), "idle")
		return now > 0 && now < before, fmt.Sprint(now, " after ", before)
	})
	if _, err := os.Stat(account); !os.IsNotExist(err) {
		t.Errorf("the account of use of an earlier version: %v", err)
	}
	if status, _, err := w.plugin.get("/use"); err != nil || status != 404 {
		t.Errorf("GET /use: %d %v, want 404", status, err)
	}
}
