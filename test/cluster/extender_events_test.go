package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const extenderEventsPolicy = "mgpu-extender-events"

// EventsWorld is a node with two cards, and two replicas of which the first one leads.
type EventsWorld struct {
	ctx           context.Context
	namespace     string
	node          string
	first, second *Extender
}

func newEventsWorld(t *testing.T) *EventsWorld {
	t.Helper()
	ctx := context.Background()
	world := &EventsWorld{ctx: ctx, namespace: newNamespace(ctx, t), node: "events-" + fmt.Sprint(time.Now().UnixNano())}
	plane.createNode(ctx, t, world.node, 2)
	start := func() *Extender {
		extender := plane.extenderOn(t, "http", http.DefaultClient, "--leader-elect", "--lease-duration-seconds", "30",
			"--lease-renew-deadline-seconds", "20", "--lease-retry-seconds", "1")
		extender.start(t)
		extender.waitReady(t)
		return extender
	}
	world.first = start()
	waitFor(t, time.Minute, "the first replica to lead", func() (bool, string) { return world.first.decides() })
	world.second = start()
	return world
}

// decides returns whether the extender leads now.
func (e *Extender) decides() (bool, string) {
	_, text, err := e.get("/metrics")
	return err == nil && strings.Contains(text, "\nmgpu_extender_leader 1\n"), fmt.Sprint(err)
}

// bind binds a new pod with 60 % of a card as another scheduler does; without cards it carries no annotations.
func (w *EventsWorld) bind(t *testing.T, name, cards string) *corev1.Pod {
	t.Helper()
	create(w.ctx, t, newPod(w.namespace, name).scheduler("nobody").share(60, 1024))
	pod := get(w.ctx, t, w.namespace, name)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, UID: pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: w.node}}
	if cards != "" {
		binding.Annotations = map[string]string{assumedKey: "true", indexKeyPrefix + "c0": cards}
	}
	if err := plane.admin.CoreV1().Pods(w.namespace).Bind(w.ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return get(w.ctx, t, w.namespace, name)
}

// events returns the extenders' Events about an object.
func (w *EventsWorld) events(t *testing.T, namespace, name string) []corev1.Event {
	t.Helper()
	list, err := plane.admin.CoreV1().Events(namespace).List(w.ctx,
		metav1.ListOptions{FieldSelector: "source=mgpu-extender,involvedObject.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// waitEvents waits until this number of Events is there about the object.
func (w *EventsWorld) waitEvents(t *testing.T, namespace, name string, count int) []corev1.Event {
	t.Helper()
	var found []corev1.Event
	waitFor(t, time.Minute, fmt.Sprint(count, " Events about ", name), func() (bool, string) {
		found = w.events(t, namespace, name)
		return len(found) >= count, fmt.Sprint(len(found))
	})
	return found
}

func describe(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(filepath.Join(plane.binaries, "kubectl"), append([]string{"--kubeconfig",
		plane.kubeconfig(adminToken), "describe"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

// A replica that follows has the same findings, and writes them when it leads.
func TestTheExtenderThatLeadsWritesEventsAboutDrift(t *testing.T) {
	world := newEventsWorld(t)
	world.bind(t, "without-cards", "")
	writer := world.waitEvents(t, world.namespace, "without-cards", 1)[0].Source.Host
	text := describe(t, "pod", "without-cards", "--namespace", world.namespace)
	for _, part := range []string{"Warning", "MGPUDrift", "mgpu-extender", "BindingWithoutCards", "delete the pod"} {
		if !strings.Contains(text, part) {
			t.Errorf("kubectl describe does not show %q:\n%s", part, text)
		}
	}
	// Both replicas have polled again when the Event about the second pod is there.
	world.bind(t, "later", "")
	world.waitEvents(t, world.namespace, "later", 1)
	for _, pod := range []string{"without-cards", "later"} {
		for _, event := range world.events(t, world.namespace, pod) {
			if event.Source.Host != writer || event.Count != 1 {
				t.Errorf("%s: %d Events by %s, want one by %s", pod, event.Count, event.Source.Host, writer)
			}
		}
	}
	world.first.end(t)
	world.first.process = nil
	waitFor(t, time.Minute, "the second replica to lead", func() (bool, string) { return world.second.decides() })
	hosts := map[string]bool{}
	for _, event := range world.waitEvents(t, world.namespace, "without-cards", 2) {
		hosts[event.Source.Host] = true
	}
	if len(hosts) != 2 {
		t.Errorf("the Events are by %v, want one by each replica", hosts)
	}
}

func TestTheExtenderWritesEventsAboutNodes(t *testing.T) {
	world := newEventsWorld(t)
	for _, name := range []string{"one", "two"} {
		world.bind(t, name, "0")
	}
	world.waitEvents(t, "default", world.node, 1)
	broken := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:"no JSON"}}}`, cardsKey))
	_, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, world.node, types.MergePatchType, broken, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	world.waitEvents(t, "default", world.node, 2)
	text := describe(t, "node", world.node)
	for _, part := range []string{"MGPUCardsOverfull", "card 0 has more in use than its capacity: pods",
		world.namespace + "/one", world.namespace + "/two",
		"MGPUBadNodeAnnotation", cardsKey} {
		if !strings.Contains(text, part) {
			t.Errorf("kubectl describe does not show %q:\n%s", part, text)
		}
	}
}

// The right to write Events ends at its own.
func TestTheExtenderWritesOnlyItsEvents(t *testing.T) {
	ctx := context.Background()
	events := clientOf(t, extenderToken).CoreV1().Events("default")
	now := metav1.Now()
	event := func(name, component, kind string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "some", APIVersion: "v1"},
			Reason:         "MGPUDrift", Message: "x", Type: corev1.EventTypeWarning,
			Source: corev1.EventSource{Component: component}, FirstTimestamp: now, LastTimestamp: now, Count: 1}
	}
	// The API server applies a new policy after a moment.
	waitFor(t, time.Minute, "the policy to be applied", func() (bool, string) {
		_, err := events.Create(ctx, event("probe", "kubelet", "Node"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return refusedBy(extenderEventsPolicy, err), fmt.Sprint(err)
	})
	for name, refused := range map[string]*corev1.Event{
		"of another component": event("refused", "kubelet", "Node"),
		"on another kind":      event("refused", "mgpu-extender", "Namespace"),
	} {
		if _, err := events.Create(ctx, refused, metav1.CreateOptions{}); !refusedBy(extenderEventsPolicy, err) {
			t.Errorf("an Event %s: %v, want refused by %s", name, err, extenderEventsPolicy)
		}
	}
	others, err := plane.admin.CoreV1().Events("default").Create(ctx, event("by-others", "kubelet", "Node"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plane.admin.CoreV1().Events("default").Delete(context.Background(), others.Name, metav1.DeleteOptions{})
	})
	_, err = events.Patch(ctx, others.Name, types.MergePatchType, []byte(`{"count":3}`), metav1.PatchOptions{})
	if !refusedBy(extenderEventsPolicy, err) {
		t.Errorf("the extender changes an Event of kubelet: %v, want refused by %s", err, extenderEventsPolicy)
	}
}
