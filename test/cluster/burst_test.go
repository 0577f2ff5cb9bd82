package cluster

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	burstNodes = 50
	burstPods  = 500
	burstLimit = 4 * time.Minute
	tooLarge   = "node(s) had no card that large, even empty"
	// Number of pods in the burst that request more memory than any card has.
	tooLargePods = 25
)

// kinds lists the kinds of pods in a burst and their numbers. The other pods are shares of one card.
var burstKinds = []struct {
	count int
	shape func(pod *PodBuilder, random *rand.Rand)
}{
	{10, func(pod *PodBuilder, _ *rand.Rand) { pod.wholeCards(cardsOfEachNode) }},
	{40, func(pod *PodBuilder, _ *rand.Rand) { pod.wholeCards(1) }},
	{10, func(pod *PodBuilder, _ *rand.Rand) { pod.wholeCards(2) }},
	{20, func(pod *PodBuilder, _ *rand.Rand) { pod.share(200, 2*16000) }},
	{30, func(pod *PodBuilder, _ *rand.Rand) {
		pod.share(100, 2*10000).annotation(multipleGPUKey, "2")
	}},
	{80, func(pod *PodBuilder, random *rand.Rand) {
		pod.share(10+random.Intn(30), 2000+random.Intn(8000)).share(10+random.Intn(30), 2000+random.Intn(8000))
	}},
	{40, func(pod *PodBuilder, random *rand.Rand) {
		pod.initShare(20, 4000).share(20+random.Intn(30), 4000+random.Intn(8000))
	}},
	{20, func(pod *PodBuilder, random *rand.Rand) {
		pod.sidecar(10, 1000).share(20+random.Intn(30), 4000+random.Intn(8000))
	}},
	{tooLargePods, func(pod *PodBuilder, _ *rand.Rand) { pod.share(10, cardMemoryMiB+1) }},
}

// burst makes the pods in a random order, which depends on the seed.
func burst(namespace string, seed int64) []*PodBuilder {
	random := rand.New(rand.NewSource(seed))
	var pods []*PodBuilder
	for kind, one := range burstKinds {
		for i := range one.count {
			pod := newPod(namespace, fmt.Sprintf("kind%d-%03d", kind, i))
			one.shape(pod, random)
			pods = append(pods, pod)
		}
	}
	for i := len(pods); i < burstPods; i++ {
		pod := newPod(namespace, fmt.Sprintf("share-%03d", i))
		pods = append(pods, pod.share(10+random.Intn(40), 1000+random.Intn(15000)))
	}
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return pods
}

// createAll creates eight pods at a time, and keeps the order approximately.
func createAll(ctx context.Context, t *testing.T, pods []*PodBuilder) {
	t.Helper()
	inParallel(pods, func(builder *PodBuilder) {
		pod := builder.build()
		if _, err := plane.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func list(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pods, err := plane.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// waitBoundCount waits until this number of pods is bound.
func waitBoundCount(ctx context.Context, t *testing.T, namespace string, count int) {
	t.Helper()
	err := pollEvery(burstPollInterval, burstLimit, fmt.Sprint(count, " pods to be bound"), func() (bool, string) {
		pods, err := list(ctx, namespace)
		if err != nil {
			return false, err.Error()
		}
		bound := 0
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				bound++
			}
		}
		return bound >= count, fmt.Sprint(bound, " bound")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unsettled returns the reason why the burst is not complete: a pending pod fits on a node, or its
// condition has no reason. It returns "" if the burst is complete.
func unsettled(pods []corev1.Pod, nodes []string) string {
	used := map[string]*Holding{}
	for _, node := range nodes {
		used[node] = &Holding{}
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			held, err := holdOfBound(&pods[i])
			if err != nil {
				return pods[i].Name + ": " + err.Error()
			}
			used[pods[i].Spec.NodeName].add(held, 1)
		}
	}
	for i := range pods {
		if why := unsettledPod(&pods[i], used); why != "" {
			return why
		}
	}
	return ""
}

func unsettledPod(pod *corev1.Pod, used map[string]*Holding) string {
	if pod.Spec.NodeName != "" {
		return ""
	}
	requests := requestsOf(pod)
	for node, held := range used {
		if fits(*held, requests) {
			return fmt.Sprintf("%s fits on %s, %v; %s", pod.Name, node, requests, scheduledCondition(pod))
		}
	}
	if said := scheduledCondition(pod); !strings.HasPrefix(said, corev1.PodReasonUnschedulable) {
		return pod.Name + " has the condition " + said
	}
	return ""
}

// waitSettled waits until all pods that fit are bound and the others have a reason. It returns the pods.
func waitSettled(ctx context.Context, t *testing.T, namespace string, nodes []string) []corev1.Pod {
	t.Helper()
	var settled []corev1.Pod
	err := pollEvery(burstPollInterval, burstLimit, "the burst to settle", func() (bool, string) {
		pods, err := list(ctx, namespace)
		if err != nil {
			return false, err.Error()
		}
		settled = pods
		why := unsettled(pods, nodes)
		return why == "", why
	})
	if err != nil {
		t.Fatal(err)
	}
	return settled
}

// notesOf returns the messages of the events of each pod.
func notesOf(ctx context.Context, t *testing.T, namespace string) map[string]string {
	t.Helper()
	events, err := plane.admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for _, event := range events.Items {
		notes[event.InvolvedObject.Name] += event.Message + "\n"
	}
	return notes
}

// checkReasons checks the condition and the event of all pending pods.
func checkReasons(ctx context.Context, t *testing.T, namespace string, pods []corev1.Pod) {
	t.Helper()
	notes := map[string]string{}
	// kube-scheduler writes events after the conditions, and others of the same pod before.
	waitFor(t, 2*time.Minute, "the events of pending pods", func() (bool, string) {
		notes = notesOf(ctx, t, namespace)
		late := slices.IndexFunc(pods, func(pod corev1.Pod) bool {
			return pod.Spec.NodeName == "" && strings.HasPrefix(pod.Name, "kind8-") &&
				!strings.Contains(notes[pod.Name], tooLarge)
		})
		return late < 0, fmt.Sprintf("pod %d has none with the reason", late)
	})
	pending, tooLargeSeen := 0, 0
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" {
			continue
		}
		pending++
		if !strings.HasPrefix(pod.Name, "kind8-") {
			continue
		}
		if strings.Contains(scheduledCondition(pod), tooLarge) && strings.Contains(notes[pod.Name], tooLarge) {
			tooLargeSeen++
		} else {
			t.Errorf("%s has the condition %q and the events %q", pod.Name, scheduledCondition(pod), notes[pod.Name])
		}
	}
	if tooLargeSeen != tooLargePods {
		t.Errorf("%d pods have the reason that %s, want %d", tooLargeSeen, tooLarge, tooLargePods)
	}
	t.Logf("%d of %d pods bound, %d pending, %d of them because %s", len(pods)-pending, len(pods), pending, tooLargeSeen,
		tooLarge)
}

// runBurst runs and checks a burst. `during` runs after all pods have been created.
func runBurst(t *testing.T, extender *Extender, during func(ctx context.Context, namespace string)) {
	t.Helper()
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	nodes := plane.createNodes(ctx, t, "gpu-", burstNodes)
	extender.waitNodes(t, burstNodes)
	history := plane.beginHistory(ctx, t, namespace)
	createAll(ctx, t, burst(namespace, 1))
	during(ctx, namespace)
	pods := waitSettled(ctx, t, namespace, nodes)
	checkReasons(ctx, t, namespace, pods)
	history.check(ctx, t)
}

func reportBurst(t *testing.T, extender *Extender) {
	t.Helper()
	metrics := extender.metrics(t)
	for _, verb := range []string{"filter", "bind"} {
		t.Log(metrics.latencies(verbSeconds, verb))
	}
	binds := metrics.with(bindsTotal)
	unfit := metrics.with(bindsTotal, `outcome="unfit"`)
	t.Logf("%.0f of %.0f binds were rejected because the cards were taken since filter: %.2f %%", unfit, binds,
		100*unfit/binds)
	// kube-scheduler writes the status of a pod that did not fit, and may filter an older copy of it next.
	conflicts := metrics.with("mgpu_extender_bind_conflicts_total")
	t.Logf("%.0f of %.0f binds were sent again because the pod had changed since filter: %.2f %%", conflicts, binds,
		100*conflicts/binds)
}

func TestBurstBindsAllPodsThatFit(t *testing.T) {
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	runBurst(t, extender, func(context.Context, string) {})
	reportBurst(t, extender)
}

func TestBurstWithoutExpectedPlacements(t *testing.T) {
	extender := plane.startExtender(t, "--expected-placements=false")
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	runBurst(t, extender, func(context.Context, string) {})
	reportBurst(t, extender)
}

func TestBurstSurvivesThreeKillsOfTheExtender(t *testing.T) {
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	runBurst(t, extender, func(ctx context.Context, namespace string) {
		for _, bound := range []int{60, 150, 250} {
			waitBoundCount(ctx, t, namespace, bound)
			extender.killAndRestart(t)
		}
	})
}

func TestBurstSurvivesAKillOfTheAPIServer(t *testing.T) {
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	runBurst(t, extender, func(ctx context.Context, namespace string) {
		waitBoundCount(ctx, t, namespace, 120)
		plane.apiServer.Kill()
		if err := plane.startAPIServer(); err != nil {
			t.Fatal(err)
		}
		if err := plane.waitReady(time.Minute); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTwoSchedulersShareOneExtender(t *testing.T) {
	ctx := context.Background()
	extender := plane.startExtender(t)
	const second = "second-scheduler"
	for _, name := range []string{"", second} {
		plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url(),
			schedulerName: name})
	}
	namespace := newNamespace(ctx, t)
	nodes := plane.createNodes(ctx, t, "gpu-", burstNodes)
	extender.waitNodes(t, burstNodes)
	history := plane.beginHistory(ctx, t, namespace)
	pods := burst(namespace, 2)
	for i, pod := range pods {
		if i%2 == 1 {
			pod.scheduler(second)
		}
	}
	createAll(ctx, t, pods)
	checkReasons(ctx, t, namespace, waitSettled(ctx, t, namespace, nodes))
	history.check(ctx, t)
	reportBurst(t, extender)
}
