package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PluginUse is the answer of the device plugin to GET /use.
type PluginUse struct {
	Node       string
	Since, Now time.Time
	LeftOut    int64
	Items      []PluginUseItem
}

type PluginUseItem struct {
	Namespace, Pod, Container, OwnerKind, Owner, UUID string
	Card, CorePercent, MemoryMiB, Samples             int64
	Running                                           bool
	From, To                                          time.Time
	CardSecondsGranted, SecondsMeasured               float64
	CardSecondsUsed                                   *float64
	MemoryMiBPeak, CorePercentP95                     *int64
}

func (p *DevicePlugin) use(t testing.TB) PluginUse {
	t.Helper()
	var use PluginUse
	status, text, err := p.get("/use")
	if err == nil {
		err = json.Unmarshal([]byte(text), &use)
	}
	if err != nil || status != 200 {
		t.Fatalf("GET /use: %d %v %s", status, err, text)
	}
	return use
}

// of returns the only share of the pod.
func (u PluginUse) of(t testing.TB, pod string) PluginUseItem {
	t.Helper()
	var found []PluginUseItem
	for _, item := range u.Items {
		if item.Pod == pod {
			found = append(found, item)
		}
	}
	if len(found) != 1 {
		t.Fatalf("pod %s has %d shares in %+v, want 1", pod, len(found), u.Items)
	}
	return found[0]
}

// waitUse waits until the share of the pod is as described.
func (w *NodeWorld) waitUse(t testing.TB, pod, what string, holds func(PluginUseItem) bool) PluginUseItem {
	t.Helper()
	var item PluginUseItem
	waitFor(t, 2*sampledLimit, fmt.Sprint(pod, " ", what), func() (bool, string) {
		item = w.plugin.use(t).of(t, pod)
		return holds(item), fmt.Sprintf("%+v", item)
	})
	return item
}

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
	peakBytes      = "mgpu_container_memory_peak_bytes"
	ownerInfo      = "mgpu_container_owner_info"
)

// The processes of one pod use half of its share, and another pod does nothing. The account says so while
// they run, after the pod has ended, and after an upgrade of the plugin.
func TestNodeAccountsForTheUseOfEachContainer(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	world.createBound(t, world.pod("busy").share(40, 8000).ownedBy("web"), "0")
	world.createBound(t, world.pod("idle").share(30, 4000), "0")
	busy := world.waitRunning(t, "busy")
	world.waitRunning(t, "idle")
	world.uses(t, map[*corev1.Pod]int64{busy: 500}, 100)

	world.checkUseWhileRunning(t)
	ended := world.checkUseAfterTheEnd(t)
	world.checkUseAfterAnUpgrade(t, ended)
}

// Nobody else can have the card of a pod that is bound, also while the pod waits for a volume.
func TestNodeAccountsForAPodThatDoesNotStart(t *testing.T) {
	world := newNodeWorld(t, v100s(1))
	builder := world.pod("waiting").share(40, 8000).ownedBy("web")
	builder.pod.Spec.Volumes = []corev1.Volume{{Name: "missing", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}}}}
	builder.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "missing", MountPath: "/missing"}}
	world.createBound(t, builder, "0")
	waitFor(t, 2*sampledLimit, "the share of the pod to be in the account", func() (bool, string) {
		use := world.plugin.use(t)
		return len(use.Items) == 1 && use.Items[0].CardSecondsGranted > 0, fmt.Sprintf("%+v", use)
	})
	item := world.plugin.use(t).of(t, "waiting")
	if !item.Running || item.CardSecondsUsed == nil || *item.CardSecondsUsed != 0 || item.CorePercent != 40 ||
		item.MemoryMiB != 8000 || item.Owner != "web" || item.UUID != v100(0).UUID {
		t.Errorf("the share is %+v", item)
	}
	if pod := get(world.ctx, t, world.namespace, "waiting"); pod.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s", pod.Status.Phase)
	}
	deleteNow(world.ctx, t, world.namespace, "waiting")
	world.waitUse(t, "waiting", "to have ended", func(item PluginUseItem) bool { return !item.Running })
}

func (w *NodeWorld) checkUseWhileRunning(t *testing.T) {
	w.waitMetric(t, 0.2, "mgpu_container_sm_utilization_ratio", `pod="busy"`)
	first := w.plugin.use(t)
	busy, idle := first.of(t, "busy"), first.of(t, "idle")
	// The first of these samples may still be followed by one without the process.
	busy = w.waitUse(t, "busy", "to be measured", func(item PluginUseItem) bool {
		return item.Samples >= busy.Samples+2
	})
	later := w.waitUse(t, "busy", "to be measured for 20 seconds more", func(item PluginUseItem) bool {
		return item.SecondsMeasured >= busy.SecondsMeasured+20
	})
	measured := later.SecondsMeasured - busy.SecondsMeasured
	if used := *later.CardSecondsUsed - *busy.CardSecondsUsed; math.Abs(used/measured-0.2) > 0.002 {
		t.Errorf("busy used %.3f card seconds in %.3f seconds, want 20 %%", used, measured)
	}
	if later.CorePercent != 40 || later.MemoryMiB != 8000 || later.Card != 0 || later.UUID != v100(0).UUID ||
		later.Container != "c0" || later.Namespace != w.namespace || !later.Running {
		t.Errorf("the share of busy is %+v", later)
	}
	if later.OwnerKind != "Deployment" || later.Owner != "web" || idle.OwnerKind != "Pod" || idle.Owner != "idle" {
		t.Errorf("the owners are %+v and %+v", later, idle)
	}
	if later.MemoryMiBPeak == nil || *later.MemoryMiBPeak != 500 {
		t.Errorf("the peak of busy is %v", later.MemoryMiBPeak)
	}
	// Both are granted from the same samples on.
	use := w.plugin.use(t)
	busyNow, idleNow := use.of(t, "busy"), use.of(t, "idle")
	granted := busyNow.CardSecondsGranted - first.of(t, "busy").CardSecondsGranted
	want := (idleNow.CardSecondsGranted - idle.CardSecondsGranted) / 0.3 * 0.4
	if granted <= 0 || math.Abs(granted-want) > 0.01 {
		t.Errorf("busy was granted %.3f card seconds, want %.3f as idle was", granted, want)
	}
	if idleNow.CardSecondsUsed == nil || *idleNow.CardSecondsUsed != 0 || idleNow.SecondsMeasured < 20 ||
		*idleNow.CorePercentP95 != 0 || *idleNow.MemoryMiBPeak != 0 {
		t.Errorf("the share that nobody uses is %+v", idleNow)
	}
	if use.Node != nodeName || use.LeftOut != 0 || use.Now.Before(use.Since) {
		t.Errorf("the account is %+v", use)
	}
}

// checkUseAfterTheEnd deletes the busy pod and returns its share, which does not change any more.
func (w *NodeWorld) checkUseAfterTheEnd(t *testing.T) PluginUseItem {
	t.Helper()
	w.uses(t, nil, 100)
	deleteNow(w.ctx, t, w.namespace, "busy")
	ended := w.waitUse(t, "busy", "to have ended", func(item PluginUseItem) bool { return !item.Running })
	idle := w.plugin.use(t).of(t, "idle")
	w.waitUse(t, "idle", "to be measured again", func(item PluginUseItem) bool { return item.Samples >= idle.Samples+2 })
	if now := w.plugin.use(t).of(t, "busy"); fmt.Sprint(now.CardSecondsGranted, *now.CardSecondsUsed, now.To) !=
		fmt.Sprint(ended.CardSecondsGranted, *ended.CardSecondsUsed, ended.To) {
		t.Errorf("the share of the ended pod has changed from %+v to %+v", ended, now)
	}
	if ended.OwnerKind != "Deployment" || ended.Owner != "web" || *ended.CorePercentP95 != 20 || *ended.MemoryMiBPeak != 500 {
		t.Errorf("the share of the ended pod is %+v", ended)
	}
	metrics, of := w.plugin.metrics(t), []string{`pod="busy"`, fmt.Sprintf("namespace=%q", w.namespace)}
	for name, want := range map[string]float64{grantedSeconds: ended.CardSecondsGranted, usedSeconds: *ended.CardSecondsUsed,
		peakBytes: 500 << 20} {
		if got := metrics.with(name, of...); math.Abs(got-want) > 0.001 {
			t.Errorf("%s of the ended pod is %v, want %v", name, got, want)
		}
	}
	if metrics.with(ownerInfo, append(of, `owner="web"`, `owner_kind="Deployment"`)...) != 1 {
		t.Errorf("the owner of the ended pod is not in %v", metrics.lines(ownerInfo))
	}
	return ended
}

func (w *NodeWorld) checkUseAfterAnUpgrade(t *testing.T, ended PluginUseItem) {
	t.Helper()
	before := w.plugin.use(t)
	if code, in := w.plugin.process.Terminate(15 * time.Second); !in || code != 0 {
		t.Fatalf("mgpu-device-plugin ended with code %d after SIGTERM (in time: %v)", code, in)
	}
	w.plugin.startAgain(t)
	idle := before.of(t, "idle")
	now := w.waitUse(t, "idle", "to be measured", func(item PluginUseItem) bool { return item.Samples >= idle.Samples+2 })
	if now.From != idle.From || !now.Running || now.CardSecondsGranted <= idle.CardSecondsGranted ||
		now.SecondsMeasured <= idle.SecondsMeasured {
		t.Errorf("after the upgrade the share of idle is %+v, before it was %+v", now, idle)
	}
	// The counters begin again, so that increase() of Prometheus counts nothing twice.
	metrics, of := w.plugin.metrics(t), fmt.Sprintf("namespace=%q", w.namespace)
	after := w.plugin.use(t)
	if got := metrics.with(grantedSeconds, `pod="busy"`, of); got != 0 {
		t.Errorf("after the upgrade %s of the ended pod is %v, want 0", grantedSeconds, got)
	}
	most := after.of(t, "idle").CardSecondsGranted - idle.CardSecondsGranted
	if got := metrics.with(grantedSeconds, `pod="idle"`, of); got <= 0 || got > most+0.001 {
		t.Errorf("after the upgrade %s of idle is %v, want at most %v", grantedSeconds, got, most)
	}
	if busy := after.of(t, "busy"); math.Abs(busy.CardSecondsGranted-ended.CardSecondsGranted) > 0.001 ||
		math.Abs(*busy.CardSecondsUsed-*ended.CardSecondsUsed) > 0.001 || busy.Owner != "web" || busy.Running {
		t.Errorf("after the upgrade the share of busy is %+v, before it was %+v", busy, ended)
	}
	if after.Since != before.Since {
		t.Errorf("the account began at %v, and after the upgrade at %v", before.Since, after.Since)
	}
}
