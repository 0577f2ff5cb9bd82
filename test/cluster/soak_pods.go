package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SoakPods has all pods of the cluster as etcd has them. It follows a watch of etcd, which continues while
// the API server is killed and is not affected by compaction, and checks each revision with the rules of
// History. Only the present pods are kept.
type SoakPods struct {
	mutex      sync.Mutex
	history    *History
	pods       map[string]*SoakPod // by "namespace/name"
	revision   int64
	violations []string // the first violationsMax
	violated   int
	totals     PodTotals
	ended      error // why the watch has ended
}

const violationsMax = 50

// SoakPod is a present pod. The times are those at which the watch showed the change.
type SoakPod struct {
	key      string
	pod      *corev1.Pod // read only
	created  time.Time
	bound    time.Time // zero if it is not bound
	deleting time.Time // zero if it has no deletion timestamp
}

// PodTotals counts the changes of pods.
type PodTotals struct {
	created, bound, removed, revisions int
	longestBind                        time.Duration // from creation to binding
	longestName                        string
}

func newSoakPods() *SoakPods {
	return &SoakPods{history: newHistory("", "/registry/pods/"), pods: map[string]*SoakPod{}}
}

// follow reads all changes from now on, until the context ends.
func (s *SoakPods) follow(ctx context.Context) error {
	answer, err := plane.history.Get(ctx, s.history.prefix, clientv3.WithCountOnly(), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	changes := plane.history.Watch(ctx, s.history.prefix, clientv3.WithPrefix(), clientv3.WithProgressNotify(),
		clientv3.WithRev(answer.Header.Revision+1))
	go func() {
		for change := range changes {
			if !s.applyAll(change) {
				return
			}
		}
		s.end(fmt.Errorf("the watch of etcd was closed"))
	}()
	return nil
}

// latest returns the last revision that has been checked.
func (s *SoakPods) latest() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.revision
}

func (s *SoakPods) end(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ended = err
}

func (s *SoakPods) applyAll(change clientv3.WatchResponse) bool {
	if err := change.Err(); err != nil {
		s.end(err)
		return false
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, event := range change.Events {
		if err := s.apply(event); err != nil {
			s.violate(fmt.Sprintf("revision %d, %s: %v", event.Kv.ModRevision, event.Kv.Key, err))
		}
	}
	s.revision = max(s.revision, change.Header.Revision)
	return true
}

func (s *SoakPods) apply(event *clientv3.Event) error {
	s.totals.revisions++
	key := strings.TrimPrefix(string(event.Kv.Key), s.history.prefix)
	if event.Type == clientv3.EventTypeDelete {
		s.totals.removed++
		delete(s.pods, key)
		return s.history.applyPod(key, nil)
	}
	pod, err := decodePod(event.Kv.Value)
	if err != nil {
		return err
	}
	s.show(key, pod)
	if err := s.history.applyPod(key, pod); err != nil {
		return err
	}
	if pod.Spec.NodeName != "" && strings.HasPrefix(pod.Name, absurdPrefix) {
		return fmt.Errorf("bound to %s, but no card has what it requests", pod.Spec.NodeName)
	}
	return nil
}

// show stores the next version of a pod.
func (s *SoakPods) show(key string, pod *corev1.Pod) {
	now := time.Now()
	one := s.pods[key]
	if one == nil {
		s.totals.created++
		one = &SoakPod{key: key, created: now}
		s.pods[key] = one
	}
	one.pod = pod
	if pod.DeletionTimestamp != nil && one.deleting.IsZero() {
		one.deleting = now
	}
	if pod.Spec.NodeName == "" || !one.bound.IsZero() {
		return
	}
	one.bound = now
	s.totals.bound++
	if took := now.Sub(one.created); took > s.totals.longestBind {
		s.totals.longestBind, s.totals.longestName = took, key
	}
}

// violate records a violation. The caller holds the mutex.
func (s *SoakPods) violate(text string) {
	s.violated++
	if len(s.violations) < violationsMax {
		s.violations = append(s.violations, text)
	}
}

func (s *SoakPods) report(text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.violate(text)
}

// present returns copies of all pods, sorted by key.
func (s *SoakPods) present() []SoakPod {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := make([]SoakPod, 0, len(s.pods))
	for _, key := range slices.Sorted(maps.Keys(s.pods)) {
		all = append(all, *s.pods[key])
	}
	return all
}

// counts returns the numbers of present and of pending pods.
func (s *SoakPods) counts() (present, pending int, totals PodTotals) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.pods {
		if one.bound.IsZero() {
			pending++
		}
	}
	return len(s.pods), pending, s.totals
}

// allocated returns the allocated compute in percent of all cards.
func (s *SoakPods) allocated(nodes int) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	core := int64(0)
	for _, held := range s.history.held {
		for _, card := range held {
			core += card.core
		}
	}
	return float64(core) / float64(nodes*cardsOfEachNode)
}

// HeldPod is what a bound pod holds, by the history of its binding.
type HeldPod struct {
	key     string
	node    string
	holding Holding
}

// held returns the bound pods that have cards and have not terminated.
func (s *SoakPods) held() map[types.UID]HeldPod {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := map[types.UID]HeldPod{}
	for key, one := range s.history.pods {
		if one.holding != (Holding{}) {
			all[one.uid] = HeldPod{key, one.node, one.holding}
		}
	}
	return all
}

// unbound returns why the pods have not settled: a pod that fits on a node is pending, or a pod is
// terminating. It returns "" if they have.
func (s *SoakPods) unbound(nodes []string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key, one := range s.pods {
		if !one.deleting.IsZero() {
			return fmt.Sprintf("%s is terminating since %v, phase %s, finalizers %v", key, one.deleting,
				one.pod.Status.Phase, one.pod.Finalizers)
		}
		if one.bound.IsZero() && isSound(one.pod) {
			if node := s.fitting(one.pod, nodes); node != "" {
				return fmt.Sprintf("%s fits on %s, %v; %s", key, node, requestsOf(one.pod), scheduledCondition(one.pod))
			}
		}
	}
	return ""
}

// unsound returns the number of pending pods for which it is not checked whether they fit.
func (s *SoakPods) unsound() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	count := 0
	for _, one := range s.pods {
		if one.bound.IsZero() && !isSound(one.pod) {
			count++
		}
	}
	return count
}

// fitting returns a node on which the pod fits, or "".
func (s *SoakPods) fitting(pod *corev1.Pod, nodes []string) string {
	requests := requestsOf(pod)
	for _, node := range nodes {
		held := Holding{}
		if s.history.held[node] != nil {
			held = *s.history.held[node]
		}
		if fits(held, requests) {
			return node
		}
	}
	return ""
}

// isSound reports whether hold.go computes the same request as the extender. Users of the soak make
// other pods too: with requests and annotations that the extender rejects, or with a selection of cards.
func isSound(pod *corev1.Pod) bool {
	if strings.HasPrefix(pod.Name, absurdPrefix) || pod.Annotations[modelKey] != "" ||
		pod.Annotations[policyKey] == unknownPolicy {
		return false
	}
	counts, written := pod.Annotations[multipleGPUKey]
	return !written || areSoundCounts(counts, pod)
}

func areSoundCounts(text string, pod *corev1.Pod) bool {
	parts := strings.Split(text, ",")
	if len(parts) != len(pod.Spec.Containers) {
		return false
	}
	for i, part := range parts {
		var count int64
		if _, err := fmt.Sscanf(part, "%d", &count); err != nil || count < 0 || fmt.Sprint(count) != part {
			return false
		}
		limits := pod.Spec.Containers[i].Resources.Limits
		core, memory := limits[coreResource], limits[memoryResource]
		if (count == 0) != (core.Value() == 0) {
			return false
		}
		if count > 0 && (core.Value()%count != 0 || memory.Value()%count != 0 || memory.Value() == 0) {
			return false
		}
	}
	return true
}
