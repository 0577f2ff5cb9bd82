package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

func bound(builder *PodBuilder, node string, cards ...string) *corev1.Pod {
	pod := builder.annotation(assumedKey, "true").build()
	pod.TypeMeta.Kind, pod.TypeMeta.APIVersion = "Pod", "v1"
	pod.Spec.NodeName = node
	for i, request := range requestsOf(pod) {
		pod.Annotations[indexKeyPrefix+request.container] = cards[i]
	}
	return pod
}

func TestAPodHoldsTheMaximumOfInitAndAppContainers(t *testing.T) {
	pod := newPod("n", "p").sidecar(10, 100).initShare(60, 100).share(30, 500)
	held, err := holdOfBound(bound(pod, "node", "0", "0", "0"))
	if err != nil {
		t.Fatal(err)
	}
	// The sidecar (10) and the init container (60) are 70, the sidecar and the app container (30) are
	// 40. For memory these are 200 and 600.
	if want := (Share{70, 600}); held[0] != want {
		t.Errorf("holds %+v, want %+v", held[0], want)
	}
}

func TestAnInitContainerRunsWithEarlierSidecarsOnly(t *testing.T) {
	held, err := holdOfBound(bound(newPod("n", "p").initShare(60, 100).sidecar(50, 100), "node", "3", "3"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Share{60, 100}); held[3] != want {
		t.Errorf("holds %+v, want %+v", held[3], want)
	}
}

// Checks that the history check detects every violation.
func TestTheHistoryCheckDetectsViolations(t *testing.T) {
	half := func(name string) *PodBuilder { return newPod("n", name).share(60, 1000) }
	unbound := bound(half("c"), "", "0")
	bare := bound(half("d"), "node", "0")
	delete(bare.Annotations, indexKeyPrefix+"c0")
	silent := bound(half("e"), "node", "0")
	delete(silent.Annotations, assumedKey)
	two := newPod("n", "f").share(200, 2000)
	recounted := bound(half("a"), "node", "0")
	recounted.Annotations[multipleGPUKey] = "2"
	ended := bound(half("a"), "node", "0")
	ended.Status.Phase = corev1.PodSucceeded
	for name, one := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"card over 100 %":      {[]*corev1.Pod{bound(half("a"), "node", "0"), bound(half("b"), "node", "0")}, "card 0 of node holds"},
		"memory over the card": {[]*corev1.Pod{bound(newPod("n", "a").share(10, cardMemoryMiB+1), "node", "1")}, "card 1 of node holds"},
		"unbound with cards":   {[]*corev1.Pod{unbound}, "not bound, but carries"},
		"bound without cards":  {[]*corev1.Pod{bare}, "has no annotation with cards"},
		"bound without mark":   {[]*corev1.Pod{silent}, "without"},
		"too few cards":        {[]*corev1.Pod{bound(two, "node", "1")}, "wants 2 cards"},
		"a card twice":         {[]*corev1.Pod{bound(two, "node", "1,1")}, "has cards"},
		"cards edited later":   {[]*corev1.Pod{bound(half("a"), "node", "0"), bound(half("a"), "node", "1")}, "then carries"},
		"moved later":          {[]*corev1.Pod{bound(half("a"), "node", "0"), bound(half("a"), "other", "0")}, "then to"},
		"edited and still full": {[]*corev1.Pod{bound(half("a"), "node", "0"), recounted, bound(half("b"), "node", "0")},
			"card 0 of node holds"},
		"request edited later": {[]*corev1.Pod{bound(half("a"), "node", "0"), recounted}, ""},
		"ended":                {[]*corev1.Pod{bound(half("a"), "node", "0"), ended, bound(half("b"), "node", "0")}, ""},
		"nothing wrong":        {[]*corev1.Pod{bound(half("a"), "node", "0"), bound(half("b"), "node", "1")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := replay(t, one.pods)
			if (one.want == "") != (said == "") || !strings.Contains(said, one.want) {
				t.Errorf("error %q, want %q", said, one.want)
			}
		})
	}
}

// replay adds pods one after the other, and returns the error of the check.
func replay(t *testing.T, pods []*corev1.Pod) string {
	t.Helper()
	history := newHistory("n", "")
	said := ""
	for _, pod := range pods {
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		event := &clientv3.Event{Type: clientv3.EventTypePut,
			Kv: &mvccpb.KeyValue{Key: []byte(pod.Name), Value: text}}
		if err := history.apply(event); err != nil {
			said += err.Error()
		}
	}
	return said
}
