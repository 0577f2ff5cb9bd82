package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// History replays all changes of the pods of a namespace in the order of etcd's revisions, and checks
// after each that no card is allocated twice. It reads etcd at the end of a test, because a watch of the
// API server would miss changes while the API server is killed.
type History struct {
	namespace string
	prefix    string
	begin     int64 // revision

	held  map[string]*Holding // by node
	pods  map[string]podHolding
	binds int
}

type podHolding struct {
	uid     types.UID
	node    string
	cards   map[string]string // the annotations with its cards
	holding Holding
}

func (c *ControlPlane) beginHistory(ctx context.Context, t testing.TB, namespace string) *History {
	t.Helper()
	history := newHistory(namespace, "/registry/pods/"+namespace+"/")
	answer, err := c.history.Get(ctx, history.prefix, clientv3.WithCountOnly(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	history.begin = answer.Header.Revision + 1
	return history
}

func newHistory(namespace, prefix string) *History {
	return &History{namespace: namespace, prefix: prefix,
		held: map[string]*Holding{}, pods: map[string]podHolding{}}
}

// check replays all changes since beginHistory. It creates a pod that marks their end.
func (h *History) check(ctx context.Context, t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	end := newPod(h.namespace, "end-of-history").share(1, 1024)
	end.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: domain + "/never"}}
	create(ctx, t, end)
	deleteNow(ctx, t, h.namespace, "end-of-history")
	changes := 0
	for answer := range plane.history.Watch(ctx, h.prefix, clientv3.WithPrefix(), clientv3.WithRev(h.begin)) {
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range answer.Events {
			if string(event.Kv.Key) == h.prefix+"end-of-history" {
				t.Logf("history: checked %d changes of pods and %d binds", changes, h.binds)
				return
			}
			changes++
			if err := h.apply(event); err != nil {
				t.Errorf("revision %d, %s: %v", event.Kv.ModRevision, event.Kv.Key, err)
			}
		}
	}
	t.Fatal("the history could not be read within a minute")
}

func (h *History) apply(event *clientv3.Event) error {
	key := strings.TrimPrefix(string(event.Kv.Key), h.prefix)
	if event.Type == clientv3.EventTypeDelete {
		return h.applyPod(key, nil)
	}
	pod, err := decodePod(event.Kv.Value)
	if err != nil {
		return err
	}
	return h.applyPod(key, pod)
}

// applyPod applies the next version of a pod, or its deletion where `pod` is nil.
func (h *History) applyPod(key string, pod *corev1.Pod) error {
	before := h.pods[key]
	if before.node != "" {
		h.held[before.node].add(before.holding, -1)
	}
	delete(h.pods, key)
	if pod == nil {
		return nil
	}
	if before.node != "" && before.uid == pod.UID {
		return h.keep(key, before, pod)
	}
	if pod.Spec.NodeName == "" {
		return carriesNothing(pod)
	}
	h.binds++
	return h.hold(key, pod)
}

// hold adds a pod that has been bound and checks the cards of its node.
func (h *History) hold(key string, pod *corev1.Pod) error {
	if len(requestsOf(pod)) > 0 && pod.Annotations[assumedKey] != "true" {
		return fmt.Errorf("bound to %s without %s", pod.Spec.NodeName, assumedKey)
	}
	holding, err := holdOfBound(pod)
	if err != nil {
		return fmt.Errorf("bound to %s: %w", pod.Spec.NodeName, err)
	}
	h.add(key, podHolding{pod.UID, pod.Spec.NodeName, cardAnnotations(pod), holding})
	node := h.held[pod.Spec.NodeName]
	if card, over := node.overfull(); over {
		return fmt.Errorf("card %d of %s holds %+v", card, pod.Spec.NodeName, node[card])
	}
	return nil
}

func (h *History) add(key string, bound podHolding) {
	if h.held[bound.node] == nil {
		h.held[bound.node] = &Holding{}
	}
	h.held[bound.node].add(bound.holding, 1)
	h.pods[key] = bound
}

// keep checks a later version of a bound pod. Its request may have been edited since, for example by
// the annotation container-multiple-gpu, but the pod holds the cards that it was bound with until it has
// terminated.
func (h *History) keep(key string, before podHolding, pod *corev1.Pod) error {
	if isTerminated(pod) {
		before.holding = Holding{}
	}
	h.add(key, before)
	if pod.Spec.NodeName != before.node {
		return fmt.Errorf("bound to %s, then to %q", before.node, pod.Spec.NodeName)
	}
	if cards := cardAnnotations(pod); !maps.Equal(cards, before.cards) {
		return fmt.Errorf("bound with %v, then carries %v", before.cards, cards)
	}
	return nil
}

// cardAnnotations returns the annotations that a binding writes: the mark, and the cards of the pod's
// containers.
func cardAnnotations(pod *corev1.Pod) map[string]string {
	keys := []string{assumedKey}
	for _, one := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		keys = append(keys, indexKeyPrefix+one.Name)
	}
	written := map[string]string{}
	for _, key := range keys {
		if value, some := pod.Annotations[key]; some {
			written[key] = value
		}
	}
	return written
}

// carriesNothing checks that a pod without a node has no cards.
func carriesNothing(pod *corev1.Pod) error {
	if cards := cardAnnotations(pod); len(cards) > 0 {
		return fmt.Errorf("not bound, but carries %v", cards)
	}
	return nil
}

func decodePod(stored []byte) (*corev1.Pod, error) {
	object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), stored)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("stored is a %T", object)
	}
	return pod, nil
}
