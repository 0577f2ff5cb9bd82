package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Names that the users of the soak give.
const (
	hostileNamespace = "soak-hostile"
	absurdPrefix     = "absurd-"
	soakPriority     = "soak-high"
	modelKey         = domain + "/gpu-model"
	unknownPolicy    = "no-such-policy"
	recreatedNames   = 20
	presentMax       = 1500 // pods
	pendingMax       = 300
)

var soakNamespaces = []string{"soak-a", "soak-b", "soak-c"}

// SoakCounts counts requests by kind and result.
type SoakCounts struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (c *SoakCounts) add(what string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.counts[what]++
}

func (c *SoakCounts) note(what string, err error) { c.add(what + ": " + resultOf(err)) }

// sum adds the counts of requests whose kind begins with `kind` and whose result with `result`.
func (c *SoakCounts) sum(kind, result string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sum := 0
	for what, count := range c.counts {
		if strings.HasPrefix(what, kind) && strings.Contains(what, ": "+result) {
			sum += count
		}
	}
	return sum
}

func (c *SoakCounts) lines() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		lines = append(lines, fmt.Sprintf("%8d  %s", c.counts[what], what))
	}
	return lines
}

// resultOf names the result of a request. There are few names.
func resultOf(err error) string {
	var network net.Error
	var transport *url.Error
	switch {
	case err == nil:
		return "done"
	case refusedBy(cardsPolicy, err):
		return "refused by " + cardsPolicy
	case refusedBy(nodePolicy, err):
		return "refused by " + nodePolicy
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	case errors.As(err, &transport), errors.As(err, &network):
		return "no answer"
	default:
		return "other error"
	}
}

func patchPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, patch string,
	subresources ...string) error {
	_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	return err
}

// --- pods -----------------------------------------------------------------------------------------

// soakShapes has ordinary pods. As in most clusters, there are a few dozen distinct requests.
var soakShapes = []func(pod *PodBuilder, random *rand.Rand){
	func(pod *PodBuilder, random *rand.Rand) { pod.share(10*(1+random.Intn(5)), 2000*(1+random.Intn(4))) },
	func(pod *PodBuilder, random *rand.Rand) { pod.wholeCards(2) },
	func(pod *PodBuilder, random *rand.Rand) { pod.share(50, 16000) },
	func(pod *PodBuilder, random *rand.Rand) { pod.wholeCards(1) },
	func(pod *PodBuilder, random *rand.Rand) { pod.wholeCards(2 + 2*random.Intn(2)) },
	func(pod *PodBuilder, random *rand.Rand) { pod.share(200, 2*16000) },
	func(pod *PodBuilder, random *rand.Rand) { pod.share(100, 2*10000).annotation(multipleGPUKey, "2") },
	func(pod *PodBuilder, random *rand.Rand) { pod.share(30, 4000).share(20, 8000) },
	func(pod *PodBuilder, random *rand.Rand) { pod.initShare(20, 4000).share(40, 8000) },
	func(pod *PodBuilder, random *rand.Rand) { pod.sidecar(10, 1024).share(30, 4000) },
	func(pod *PodBuilder, random *rand.Rand) { pod.container("plain", "", "").cpu("100m") },
}

// absurdRequests are requests of core and memory that no card can fulfill.
var absurdRequests = [][2]string{{"150", "1000"}, {"", "1000"}, {"50", ""}, {"9223372036854775807", "1"},
	{"800", "99999999999"}, {"100", "1e18"}, {"1600", ""}, {"10", fmt.Sprint(cardMemoryMiB + 1)}, {"300", "1001"},
	{"1e15", "1e15"}}

// ordinaryPod draws a pod of a well-behaved user.
func ordinaryPod(namespace, name string, random *rand.Rand) *PodBuilder {
	pod := newPod(namespace, name)
	soakShapes[random.Intn(len(soakShapes))](pod, random)
	switch random.Intn(12) {
	case 0:
		pod.pod.Finalizers = []string{"example.com/" + strings.Repeat("f", 50)}
	case 1:
		grace := int64(0)
		pod.pod.Spec.TerminationGracePeriodSeconds = &grace
	case 2:
		grace := int64(longGrace)
		pod.pod.Spec.TerminationGracePeriodSeconds = &grace
	case 3:
		pod.annotation(policyKey, []string{"binpack", "spread"}[random.Intn(2)])
	case 4:
		pod.priorityClass(soakPriority)
	}
	return pod
}

func (s *Soak) create(ctx context.Context, client kubernetes.Interface, what string, pod *PodBuilder) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	built := pod.build()
	_, err := client.CoreV1().Pods(built.Namespace).Create(ctx, built, metav1.CreateOptions{})
	s.counts.note(what, err)
	return err
}

// --- users ----------------------------------------------------------------------------------------

// every calls act with this mean interval until the context ends. The intervals are random.
func every(ctx context.Context, random *rand.Rand, mean time.Duration, act func()) {
	for {
		wait := time.Duration(random.Int63n(2 * int64(mean)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			act()
		}
	}
}

// arrivals creates ordinary pods: for two minutes more than fit, then half as many for two minutes. Every
// hundredth time many arrive at once.
func (s *Soak) arrivals(ctx context.Context, random *rand.Rand) {
	number, begun := 0, time.Now()
	every(ctx, random, 100*time.Millisecond, func() {
		if int(time.Since(begun).Minutes())/2%2 == 1 && random.Intn(2) == 0 {
			return
		}
		count := 1
		if random.Intn(100) == 0 {
			count = 100
		}
		for range count {
			present, pending, _ := s.pods.counts()
			if present >= presentMax || pending >= pendingMax {
				s.counts.add("arrivals left out, because there are too many pods")
				return
			}
			number++
			namespace := soakNamespaces[random.Intn(len(soakNamespaces))]
			_ = s.create(ctx, plane.admin, "create", ordinaryPod(namespace, fmt.Sprint("pod-", number), random))
		}
	})
}

// absurdArrivals creates pods that fit nowhere, and pods that claim cards without a binding.
func (s *Soak) absurdArrivals(ctx context.Context, random *rand.Rand) {
	number := 0
	every(ctx, random, 2*time.Second, func() {
		number++
		request := absurdRequests[random.Intn(len(absurdRequests))]
		pod := newPod(hostileNamespace, fmt.Sprint(absurdPrefix, number)).container("c0", request[0], request[1])
		_ = s.create(ctx, s.tenant, "create absurd", pod)
		forged := newPod(hostileNamespace, fmt.Sprint("forged-", number)).share(10, 1024)
		if random.Intn(2) == 0 {
			forged.annotation(assumedKey, "true").annotation(indexKeyPrefix+"c0", "0")
		} else {
			forged.onNode(s.nodes[random.Intn(len(s.nodes))])
		}
		if err := s.create(ctx, s.tenant, "create with cards or a node", forged); err == nil {
			s.pods.report("a tenant created the pod " + forged.pod.Name + " with cards or a node")
		}
	})
}

// recreations deletes pods at once and creates others with the same names.
func (s *Soak) recreations(ctx context.Context, random *rand.Rand) {
	now := int64(0)
	every(ctx, random, 300*time.Millisecond, func() {
		name := fmt.Sprint("again-", random.Intn(recreatedNames))
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := s.tenant.CoreV1().Pods(hostileNamespace).Delete(limited, name,
			metav1.DeleteOptions{GracePeriodSeconds: &now})
		s.counts.note("delete before create", err)
		pod := newPod(hostileNamespace, name).share(10+random.Intn(60), 1024+random.Intn(20000))
		if random.Intn(4) == 0 {
			pod = newPod(hostileNamespace, name).share(100, 20000).annotation(multipleGPUKey, "2")
		}
		_ = s.create(ctx, s.tenant, "create again", pod.cpu("10m"))
	})
}

// Edit is a change of a pod. One that is forged must be refused.
type Edit struct {
	name        string
	patch       string
	subresource []string
	forged      bool
}

func annotationEdit(name, key, value string) Edit {
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	return Edit{name: "edit " + name, patch: fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text)}
}

// harmlessEdit draws an edit that every user may make.
func harmlessEdit(random *rand.Rand) Edit {
	if random.Intn(2) == 0 {
		return annotationEdit("annotation", "example.com/note", strings.Repeat("n", 1+random.Intn(2000)))
	}
	return Edit{name: "edit label", patch: fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, random.Intn(1000))}
}

// hostileEdit draws an edit of the pods of a tenant that wants cards of others. Absurd requests are not
// edited, because some of them fit with another number of cards.
func hostileEdit(pod *corev1.Pod, random *rand.Rand) Edit {
	if strings.HasPrefix(pod.Name, absurdPrefix) {
		return harmlessEdit(random)
	}
	container := pod.Spec.Containers[0].Name
	pick := func(values ...string) string { return values[random.Intn(len(values))] }
	switch random.Intn(8) {
	case 0:
		return annotationEdit("container-multiple-gpu", multipleGPUKey, pick("", "1", "2", "4", "0", "x", "2,2"))
	case 1:
		return annotationEdit("gpu-model", modelKey, pick("", "", "V100", "A100", strings.Repeat("x", 300)))
	case 2:
		return annotationEdit("mgpu-policy", policyKey, pick("", "spread", "binpack", unknownPolicy))
	case 3:
		return annotationEdit("cards of a container that does not exist", indexKeyPrefix+"none", pick("", "0", "7"))
	case 4:
		return Edit{name: "edit mgpu-core", forged: true, patch: fmt.Sprintf(`{"spec":{"containers":[{"name":%q,`+
			`"resources":{"limits":{%q:"1"},"requests":{%q:"1"}}}]}}`, container, coreResource, coreResource)}
	case 5:
		return Edit{name: "resize CPU", subresource: []string{"resize"}, patch: fmt.Sprintf(
			`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":"%dm"}}}]}}`, container, 1+random.Intn(50))}
	default:
		return forgedEdit(container, random)
	}
}

// forgedEdit changes the annotations that only a binding may write. No pod has these values.
func forgedEdit(container string, random *rand.Rand) Edit {
	edit := annotationEdit("cards", indexKeyPrefix+container, "7,7")
	if random.Intn(2) == 0 {
		edit = annotationEdit("cards", assumedKey, "forged")
	}
	edit.forged = true
	return edit
}

// edits changes random pods of these namespaces.
func (s *Soak) edits(ctx context.Context, random *rand.Rand, client kubernetes.Interface, namespaces []string,
	draw func(pod *corev1.Pod, random *rand.Rand) Edit, mean time.Duration) {
	every(ctx, random, mean, func() {
		pods := slices.DeleteFunc(s.pods.present(), func(one SoakPod) bool {
			return !slices.Contains(namespaces, one.pod.Namespace)
		})
		if len(pods) > 0 {
			pod := pods[random.Intn(len(pods))].pod
			s.edit(ctx, client, pod, draw(pod, random))
		}
	})
}

func (s *Soak) edit(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, edit Edit) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := patchPod(ctx, client, pod, edit.patch, edit.subresource...)
	s.counts.note(edit.name, err)
	if err == nil && edit.forged {
		s.pods.report(fmt.Sprintf("%s/%s was edited: %s", pod.Namespace, pod.Name, edit.patch))
	}
}

// administratorEdit draws an edit of any pod by an administrator, who may not write cards either.
func administratorEdit(pod *corev1.Pod, random *rand.Rand) Edit {
	if random.Intn(4) == 0 {
		return forgedEdit(pod.Spec.Containers[0].Name, random)
	}
	return harmlessEdit(random)
}
