package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeWorld has a namespace, the node with a device plugin, and an extender with a scheduler.
type NodeWorld struct {
	ctx       context.Context
	namespace string
	node      *Node
	plugin    *DevicePlugin
}

func newNodeWorld(t testing.TB, cards []TestCard, flags ...string) *NodeWorld {
	t.Helper()
	world := nodeWorldOn(t, cards, flags...)
	world.plugin.startAgain(t)
	return world
}

// nodeWorldOn returns a world whose device plugin has not been started.
func nodeWorldOn(t testing.TB, cards []TestCard, flags ...string) *NodeWorld {
	t.Helper()
	world := &NodeWorld{ctx: context.Background(), node: realNode(t)}
	world.node.forgetCards(t)
	world.namespace = newNamespace(world.ctx, t)
	world.plugin = devicePluginOn(t, world.node, cards, flags...)
	t.Cleanup(func() {
		if err := world.node.removePods(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("last lines of kubelet:\n%s", world.node.kubelet.logTail(15))
		}
	})
	return world
}

// newScheduledWorld returns a world that also has an extender and a scheduler.
func newScheduledWorld(t testing.TB, cards []TestCard, flags ...string) *NodeWorld {
	t.Helper()
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	world := newNodeWorld(t, cards, flags...)
	extender.waitCards(t, cards)
	return world
}

// waitCards waits until the extender has these cards.
func (e *Extender) waitCards(t testing.TB, cards []TestCard) {
	t.Helper()
	waitFor(t, 2*time.Minute, "mgpu-extender to see the cards", func() (bool, string) {
		_, text, err := e.get("/inspect/cluster")
		seen := slices.IndexFunc(cards, func(card TestCard) bool { return !strings.Contains(text, card.UUID) })
		return err == nil && seen < 0, text
	})
}

// forgetCards removes the cards of the previous test from the Node object.
func (n *Node) forgetCards(t testing.TB) {
	t.Helper()
	_, err := n.plane.admin.CoreV1().Nodes().Patch(context.Background(), nodeName, types.MergePatchType,
		[]byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, cardsKey)), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// nodeTestsMayBeSlow returns whether tests may take minutes, as in the stage node-slow.
func nodeTestsMayBeSlow() bool { return os.Getenv("MGPU_NODE_SLOW") != "" }

func skipSlowNodeTest(t testing.TB) {
	t.Helper()
	if !nodeTestsMayBeSlow() {
		t.Skip("MGPU_NODE_SLOW is not set; test/run.sh node-slow sets it")
	}
}

func (w *NodeWorld) pod(name string) *PodBuilder { return newPod(w.namespace, name) }

// createBound creates a pod and binds it without the extender. The cards are in the order of requestsOf;
// without them the pod has no annotations.
func (w *NodeWorld) createBound(t testing.TB, builder *PodBuilder, cards ...string) *corev1.Pod {
	t.Helper()
	builder.scheduler("nobody")
	pod := create(w.ctx, t, builder.runs())
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	if len(cards) > 0 {
		binding.Annotations = map[string]string{assumedKey: "true"}
		for i, request := range requestsOf(pod) {
			binding.Annotations[indexKeyPrefix+request.container] = cards[i]
		}
	}
	err := plane.admin.CoreV1().Pods(w.namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (w *NodeWorld) waitRunning(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	return waitRunning(w.ctx, t, w.namespace, name)
}

// checkViews waits until the pods run, and compares the view of each container with its annotation.
func (w *NodeWorld) checkViews(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		w.checkView(t, w.waitRunning(t, name))
	}
}

func (w *NodeWorld) checkView(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	requests := requestsOf(pod)
	for _, request := range requests {
		view := w.node.viewOf(t, pod, request.container)
		for _, difference := range w.plugin.differences(pod, request, view) {
			t.Errorf("%s of %s: %s; sees %v", request.container, pod.Name, difference, view)
		}
	}
	if len(requests) == 0 {
		t.Errorf("pod %s requests no cards", pod.Name)
	}
}

// differences returns the differences between the view of a container and its annotation.
func (p *DevicePlugin) differences(pod *corev1.Pod, request ContainerRequest, view View) []string {
	indices, err := cardsOf(pod, request, len(p.cards))
	if err != nil {
		return []string{err.Error()}
	}
	devices, uuids, memory := map[string]string{"/dev/nvidiactl": p.numberOf(controlMinor)}, []string{}, int64(0)
	for _, index := range indices {
		card := p.cards[slices.IndexFunc(p.cards, func(card TestCard) bool { return card.Index == index })]
		devices[card.containerPath()] = p.numberOf(card.Index)
		uuids = append(uuids, card.UUID)
		memory += card.MemoryMiB
	}
	if limit, some := limitsOf(pod, request.container)[memoryResource]; some {
		memory = limit.Value()
	}
	core := limitsOf(pod, request.container)[coreResource]
	var found []string
	expect := func(name string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			found = append(found, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	expect("devices", view.devices, devices)
	expect("forbidden", view.forbidden, []string(nil))
	environment := view.environment
	expect("MGPU_CARDS", environment["MGPU_CARDS"], pod.Annotations[indexKeyPrefix+request.container])
	expect("MGPU_CARD_UUIDS", environment["MGPU_CARD_UUIDS"], strings.Join(uuids, ","))
	expect("MGPU_CORE_PERCENT", environment["MGPU_CORE_PERCENT"], core.Value())
	expect("MGPU_MEMORY_MIB", environment["MGPU_MEMORY_MIB"], strconv.FormatInt(memory, 10))
	expect("NVIDIA_VISIBLE_DEVICES", environment["NVIDIA_VISIBLE_DEVICES"], "void")
	hash, _, _ := strings.Cut(environment["MGPU_ALLOCATION"], "-")
	expect("MGPU_DEVICES_HASH", environment["MGPU_DEVICES_HASH"], hash)
	return found
}

func limitsOf(pod *corev1.Pod, container string) corev1.ResourceList {
	for _, one := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		if one.Name == container {
			return one.Resources.Limits
		}
	}
	return nil
}

// waitRefused waits until kubelet cannot create a container and an event contains the sentence.
func (w *NodeWorld) waitRefused(t testing.TB, name, sentence string) {
	t.Helper()
	waitFor(t, podRunningLimit, "pod "+name+" to be refused with "+sentence, func() (bool, string) {
		pod := get(w.ctx, t, w.namespace, name)
		if pod.Status.Phase != corev1.PodPending {
			t.Fatalf("pod %s: %s", name, statusOf(pod))
		}
		status, said := statusOf(pod), pluginEventsOf(w.ctx, pod)
		return strings.Contains(status, "CreateContainerConfigError") && strings.Contains(said, sentence),
			status + " " + said
	})
}

// sameContainers returns whether no container was restarted.
func sameContainers(before, after *corev1.Pod) bool {
	return slices.EqualFunc(before.Status.ContainerStatuses, after.Status.ContainerStatuses,
		func(a, b corev1.ContainerStatus) bool {
			return a.ContainerID == b.ContainerID && b.State.Running != nil
		})
}

// waitRestarted waits until a container runs that has been restarted `count` times.
func (w *NodeWorld) waitRestarted(t testing.TB, name string, count int32) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	waitFor(t, podRunningLimit, fmt.Sprint("restart ", count, " of ", name), func() (bool, string) {
		pod = get(w.ctx, t, w.namespace, name)
		statuses := pod.Status.ContainerStatuses
		return allRun(pod) && statuses[0].RestartCount >= count, statusOf(pod) + eventsOf(w.ctx, pod)
	})
	return pod
}
