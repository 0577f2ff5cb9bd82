package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	withoutShare       = "ProcessWithoutShare"
	changedAnnotations = "ChangedAnnotations"
	// The plugin reports what two samples have in common.
	driftLimit = 3 * time.Minute
)

var driftKinds = []string{withoutShare, changedAnnotations}

// Drift is an item of /drift.
type Drift struct {
	Kind, Namespace, Pod, Container, UUID, Since, Message string
	Card                                                  *int
}

func (d Drift) String() string {
	text, _ := json.Marshal(d)
	return string(text)
}

func (p *DevicePlugin) drifts(t testing.TB) []Drift {
	t.Helper()
	status, body, err := p.get("/drift")
	var view struct {
		Node    string
		Items   []Drift
		LeftOut int
	}
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &view) != nil || view.Node != nodeName {
		t.Fatalf("/drift returned %d %s %v", status, body, err)
	}
	return view.Items
}

// waitDrifts waits until the drifts are of these kinds, and returns them in the order of the kinds. The metric has the
// same numbers.
func (w *NodeWorld) waitDrifts(t testing.TB, kinds ...string) []Drift {
	t.Helper()
	var found []Drift
	slices.Sort(kinds)
	waitFor(t, driftLimit, fmt.Sprint("the drifts ", kinds), func() (bool, string) {
		found = w.plugin.drifts(t)
		slices.SortFunc(found, func(a, b Drift) int { return strings.Compare(a.Kind+a.Pod, b.Kind+b.Pod) })
		seen := make([]string, len(found))
		for i, one := range found {
			seen[i] = one.Kind
		}
		return slices.Equal(seen, kinds), fmt.Sprint(found)
	})
	metrics := w.plugin.metrics(t)
	for _, kind := range driftKinds {
		want := 0.0
		for _, one := range kinds {
			if one == kind {
				want++
			}
		}
		if got := metrics.with("mgpu_drifts", fmt.Sprintf("kind=%q", kind)); got != want {
			t.Errorf("mgpu_drifts of %s is %v, want %v", kind, got, want)
		}
	}
	for _, one := range found {
		if _, err := time.Parse(time.RFC3339, one.Since); err != nil {
			t.Errorf("since: %v in %s", err, one)
		}
	}
	return found
}

// expectDrift checks the names of a drift, and that its Event on the pod has its message once.
func (w *NodeWorld) expectDrift(t testing.TB, got Drift, pod *corev1.Pod, container string, card int) {
	t.Helper()
	if got.Namespace != pod.Namespace || got.Pod != pod.Name || got.Container != container {
		t.Errorf("got %s, want container %s of %s/%s", got, container, pod.Namespace, pod.Name)
	}
	if card >= 0 && (got.Card == nil || *got.Card != card || got.UUID != v100(card).UUID) {
		t.Errorf("got %s, want card %d", got, card)
	}
	w.waitEvent(t, pod.Namespace, pod.Name, got)
	if !strings.Contains(w.plugin.logText(), fmt.Sprintf("\"drift found\" kind=%s pod=%s/%s", got.Kind, pod.Namespace, pod.Name)) {
		t.Errorf("the log has no line for %s:\n%s", got, w.plugin.process.logTail(20))
	}
}

func (w *NodeWorld) waitEvent(t testing.TB, namespace, object string, drift Drift) {
	t.Helper()
	waitFor(t, sampledLimit, "one Event with "+drift.Message, func() (bool, string) {
		events, err := plane.admin.CoreV1().Events(namespace).List(w.ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + object + ",reason=MGPU" + drift.Kind})
		if err != nil {
			return false, err.Error()
		}
		said := ""
		count := int32(0)
		for _, event := range events.Items {
			said += event.Message + "\n"
			if event.Message == drift.Message && event.LastTimestamp.After(w.plugin.started.Add(-2*time.Second)) {
				count += event.Count
			}
		}
		return count == 1, said
	})
}

// waitNoDrifts waits until there are none, and until the log says that these have ended.
func (w *NodeWorld) waitNoDrifts(t testing.TB, ended ...string) {
	t.Helper()
	w.waitDrifts(t)
	for _, kind := range ended {
		if !strings.Contains(w.plugin.logText(), `"drift ended" kind=`+kind) {
			t.Errorf("the log does not say that %s has ended:\n%s", kind, w.plugin.process.logTail(20))
		}
	}
}

// runsOn writes to the cards file which processes run on which cards.
func (w *NodeWorld) runsOn(t testing.TB, pids map[int][]int) {
	t.Helper()
	cards := slices.Clone(w.plugin.cards)
	for i := range cards {
		cards[i].Processes = nil
		for _, pid := range pids[i] {
			cards[i].Processes = append(cards[i].Processes, TestProcess{Pid: pid, MemoryMiB: 100, SMPercent: 10})
		}
	}
	w.plugin.writeCards(t, cards)
}

func TestNodeDriftOfProcessesWithoutAShare(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.runningPods(t, "0")[0]
	pid := world.node.pidOf(t, pod, "c0")
	world.runsOn(t, map[int][]int{0: {pid, os.Getpid()}, 1: {pid}})
	found := world.waitDrifts(t, withoutShare, withoutShare)
	onNode, inPod := found[0], found[1]
	world.expectDrift(t, inPod, pod, "c0", 1)
	if !strings.Contains(inPod.Message, fmt.Sprintf("process %d (\"sh\") of container \"c0\" of pod %s/%s uses card 1 (%s) "+
		"without a share of it; delete the pod", pid, pod.Namespace, pod.Name, v100(1).UUID)) {
		t.Error(inPod.Message)
	}
	if onNode.Pod != "" || onNode.Card == nil || *onNode.Card != 0 || !strings.Contains(onNode.Message, "belongs to no pod") {
		t.Errorf("got %s", onNode)
	}
	world.waitEvent(t, "default", nodeName, onNode)
	world.runsOn(t, map[int][]int{0: {pid}})
	world.waitNoDrifts(t, withoutShare)
}

// permitEdits removes the policy that keeps everybody from editing the cards of a pod, until the end of the test.
func permitEdits(t testing.TB, w *NodeWorld) {
	t.Helper()
	const name = "mgpu-cards-of-bound-pods"
	bindings := plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	before, err := bindings.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		again := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: before.Spec}
		if _, err := bindings.Create(w.ctx, again, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func (w *NodeWorld) annotate(t testing.TB, pod *corev1.Pod, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	waitFor(t, time.Minute, "the edit of an annotation", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(pod.Namespace).Patch(w.ctx, pod.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func TestNodeDriftOfChangedAnnotations(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pod := world.runningPods(t, "0")[0]
	world.createBound(t, world.pod("two").wholeCards(2), "1,2")
	two := world.waitRunning(t, "two")
	permitEdits(t, world)
	world.annotate(t, two, indexKeyPrefix+"c0", "2,1") // the same cards, in an order that the extender refuses
	found := world.waitDrifts(t, changedAnnotations)
	world.expectDrift(t, found[0], two, "c0", -1)
	if !strings.Contains(found[0].Message, `was started on cards 1,2, and its annotation `+indexKeyPrefix+`c0 is "2,1"; set it to "1,2" again`) {
		t.Error(found[0].Message)
	}
	world.annotate(t, two, indexKeyPrefix+"c0", "1,2")
	world.waitNoDrifts(t, changedAnnotations)
	world.annotate(t, pod, indexKeyPrefix+"c0", "1")
	found = world.waitDrifts(t, changedAnnotations)
	world.expectDrift(t, found[0], pod, "c0", -1)
	if !strings.Contains(found[0].Message, `was started on card 0, and its annotation `+indexKeyPrefix+`c0 is "1"; set it to "0" again`) {
		t.Error(found[0].Message)
	}
	world.annotate(t, pod, indexKeyPrefix+"c0", "0")
	world.waitNoDrifts(t, changedAnnotations)
}

// bindsCards binds a pod whose container c0 requests nothing to a card.
func (w *NodeWorld) bindsCards(t testing.TB, name, card string) *corev1.Pod {
	t.Helper()
	pod := create(w.ctx, t, w.pod(name).container("c0", "", "").scheduler("nobody").runs())
	err := plane.admin.CoreV1().Pods(w.namespace).Bind(w.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, UID: pod.UID,
			Annotations: map[string]string{assumedKey: "true", indexKeyPrefix + "c0": card}},
		Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w.waitRunning(t, name)
}

// An annotation gives no share to a container that requests nothing, which kubelet gives nothing to.
func TestNodeDriftOfAProcessOfAContainerWithoutARequest(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.bindsCards(t, "bound-by-hand", "1")
	world.runsOn(t, map[int][]int{1: {world.node.pidOf(t, pod, "c0")}})
	found := world.waitDrifts(t, withoutShare)
	world.expectDrift(t, found[0], pod, "c0", 1)
	world.removeNow(t, pod.Name)
	world.runsOn(t, nil)
	world.waitNoDrifts(t, withoutShare)
}

// Containers start, restart and end; pods take the names of others; the plugin and kubelet are restarted. At the end
// the plugin finds a real drift, so that it has looked at all that before.
func TestNodeWithoutDriftsReportsNone(t *testing.T) {
	skipSlowNodeTest(t)
	world := newNodeWorld(t, v100s(4))
	builders := map[string]*PodBuilder{"share": world.pod("share").share(30, 4000), "pair": world.pod("pair").share(10, 1000).share(20, 3000),
		"sidecar": world.pod("sidecar").sidecar(10, 1000).share(20, 2000), "init": world.pod("init").initShare(20, 2000).share(30, 2000)}
	cards := map[string][]string{"share": {"0"}, "pair": {"0", "1"}, "sidecar": {"2", "2"}, "init": {"3", "3"}}
	for name, builder := range builders {
		world.createBound(t, builder, cards[name]...)
	}
	pids := map[int][]int{}
	run := func(name string, containers map[string]int) {
		pod := world.waitRunning(t, name)
		for container, card := range containers {
			pids[card] = append(pids[card], world.node.pidOf(t, pod, container))
		}
		world.runsOn(t, pids)
	}
	run("share", map[string]int{"c0": 0})
	run("pair", map[string]int{"c0": 0, "c1": 1})
	run("sidecar", map[string]int{"i0": 2, "c0": 2})
	run("init", map[string]int{"c0": 3})

	world.node.killContainer(t, world.waitRunning(t, "share"), "c0")
	world.waitRestarted(t, "share", 1)
	run("share", map[string]int{"c0": 0}) // and the process that has ended, which the driver may list for a while
	world.removeNow(t, "pair")
	world.createBound(t, world.pod("pair").share(10, 1000).share(20, 3000), "1", "0")
	run("pair", map[string]int{"c0": 1, "c1": 0})
	world.plugin.kill()
	world.plugin.startAgain(t)
	world.node.kubelet.Kill()
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	pids[3] = append(pids[3], os.Getpid())
	world.runsOn(t, pids)
	world.waitDrifts(t, withoutShare)
	if log := world.plugin.logText(); strings.Count(log, "drift found") != 1 {
		t.Errorf("the log has more than one drift:\n%s", log)
	}
	for _, name := range []string{"share", "pair", "sidecar", "init"} {
		pod := world.waitRunning(t, name)
		for _, kind := range driftKinds {
			if said := pluginEventsOf(world.ctx, pod); strings.Contains(said, "MGPU"+kind) {
				t.Errorf("pod %s has an Event: %s", name, said)
			}
		}
	}
}
