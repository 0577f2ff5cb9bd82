package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	node    string
	holding Holding
}

func (c *ControlPlane) beginHistory(ctx context.Context, t testing.TB, namespace string) *History {
	t.Helper()
	history := &History{namespace: namespace, prefix: "/registry/pods/" + namespace + "/",
		held: map[string]*Holding{}, pods: map[string]podHolding{}}
	answer, err := c.history.Get(ctx, history.prefix, clientv3.WithCountOnly(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	history.begin = answer.Header.Revision + 1
	return history
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
	before := h.pods[key]
	if before.node != "" {
		h.held[before.node].add(before.holding, -1)
	}
	delete(h.pods, key)
	if event.Type == clientv3.EventTypeDelete {
		return nil
	}
	pod, err := decodePod(event.Kv.Value)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return carriesNothing(pod)
	}
	if before.node == "" {
		h.binds++
	}
	return h.hold(key, pod)
}

// hold adds a bound pod and checks the cards of its node.
func (h *History) hold(key string, pod *corev1.Pod) error {
	if len(requestsOf(pod)) > 0 && pod.Annotations[assumedKey] != "true" {
		return fmt.Errorf("bound to %s without %s", pod.Spec.NodeName, assumedKey)
	}
	holding, err := holdOfBound(pod)
	if err != nil {
		return fmt.Errorf("bound to %s: %w", pod.Spec.NodeName, err)
	}
	node := h.held[pod.Spec.NodeName]
	if node == nil {
		node = &Holding{}
		h.held[pod.Spec.NodeName] = node
	}
	node.add(holding, 1)
	h.pods[key] = podHolding{pod.Spec.NodeName, holding}
	if card, over := node.overfull(); over {
		return fmt.Errorf("card %d of %s holds %+v", card, pod.Spec.NodeName, node[card])
	}
	return nil
}

// carriesNothing checks that a pod without a node has no cards.
func carriesNothing(pod *corev1.Pod) error {
	for key, value := range pod.Annotations {
		if key == assumedKey || strings.HasPrefix(key, indexKeyPrefix) {
			return fmt.Errorf("not bound, but carries %s=%s", key, value)
		}
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
