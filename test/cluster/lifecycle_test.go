package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const coreShort = "node(s) had no single card with enough free mgpu-core"

// World has a namespace, nodes, and an extender with a scheduler.
type World struct {
	ctx       context.Context
	namespace string
	nodes     []string
	extender  *Extender
	history   *History
}

func newWorld(t *testing.T, nodes int, flags ...string) *World {
	t.Helper()
	world := &World{ctx: context.Background(), extender: plane.startExtender(t, flags...)}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.namespace = newNamespace(world.ctx, t)
	world.nodes = plane.createNodes(world.ctx, t, "gpu-", nodes)
	world.extender.waitNodes(t, nodes)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

func (w *World) pod(name string) *PodBuilder { return newPod(w.namespace, name) }

// fillEachCard binds one pod to each card of each node. The pods are named full-0, full-1, ...
func (w *World) fillEachCard(t *testing.T, core int) []string {
	t.Helper()
	names := make([]string, len(w.nodes)*cardsOfEachNode)
	for i := range names {
		names[i] = fmt.Sprint("full-", i)
		create(w.ctx, t, w.pod(names[i]).share(core, 8000))
		waitBound(w.ctx, t, w.namespace, names[i])
	}
	return names
}

func TestAPendingPodGetsTheShareOfADeletedPod(t *testing.T) {
	world := newWorld(t, 1)
	full := world.fillEachCard(t, 60)
	// The scheduler and the extender receive a deletion at the same time. The pod must be bound in either
	// order, so the test has several rounds.
	for round, name := range full {
		waiting := fmt.Sprint("waiting-", round)
		create(world.ctx, t, world.pod(waiting).share(60, 8000))
		waitPending(world.ctx, t, world.namespace, waiting, coreShort)
		deleteNow(world.ctx, t, world.namespace, name)
		waitBound(world.ctx, t, world.namespace, waiting)
	}
	world.history.check(world.ctx, t)
}

func TestATerminatedPodReleasesItsShare(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			world := newWorld(t, 1)
			full := world.fillEachCard(t, 60)
			create(world.ctx, t, world.pod("waiting").share(60, 8000))
			waitPending(world.ctx, t, world.namespace, "waiting", coreShort)
			patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
			_, err := plane.admin.CoreV1().Pods(world.namespace).Patch(world.ctx, full[3],
				types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}
			waitBound(world.ctx, t, world.namespace, "waiting")
			world.history.check(world.ctx, t)
		})
	}
}

func TestATerminatingPodKeepsItsShare(t *testing.T) {
	world := newWorld(t, 1)
	full := world.fillEachCard(t, 60)
	create(world.ctx, t, world.pod("waiting").share(60, 8000))
	waitPending(world.ctx, t, world.namespace, "waiting", coreShort)
	// Without a kubelet the pod stays terminating.
	err := plane.admin.CoreV1().Pods(world.namespace).Delete(world.ctx, full[0], metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if get(world.ctx, t, world.namespace, full[0]).DeletionTimestamp == nil {
		t.Fatal("the pod is not terminating")
	}
	create(world.ctx, t, world.pod("later").share(60, 8000))
	waitPending(world.ctx, t, world.namespace, "later", coreShort)
	waitPending(world.ctx, t, world.namespace, "waiting", coreShort)
	deleteNow(world.ctx, t, world.namespace, full[0])
	waitFor(t, time.Minute, "one of the two to be bound", func() (bool, string) {
		bound := get(world.ctx, t, world.namespace, "waiting").Spec.NodeName +
			get(world.ctx, t, world.namespace, "later").Spec.NodeName
		return bound != "", "neither"
	})
	world.history.check(world.ctx, t)
}

func TestAContainerNameOf44CharactersIsRejected(t *testing.T) {
	world := newWorld(t, 1)
	longest := strings.Repeat("n", 43)
	create(world.ctx, t, world.pod("legal").container(longest, "10", "1024"))
	if pod := waitBound(world.ctx, t, world.namespace, "legal"); pod.Annotations[indexKeyPrefix+longest] == "" {
		t.Errorf("bound with %v", pod.Annotations)
	}
	create(world.ctx, t, world.pod("illegal").container(longest+"n", "10", "1024"))
	waitPending(world.ctx, t, world.namespace, "illegal", "at most 43")
	// The pod can still be changed.
	_, err := plane.admin.CoreV1().Pods(world.namespace).Patch(world.ctx, "legal", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"touched":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
	world.history.check(world.ctx, t)
}

func TestInvalidRequestsHaveAReasonInTheEvent(t *testing.T) {
	world := newWorld(t, 1)
	for name, one := range map[string]struct {
		pod      *PodBuilder
		sentence string
	}{
		"memory-without-core":  {world.pod("").container("c", "", "1024"), "mgpu-core"},
		"share-without-memory": {world.pod("").container("c", "50", ""), "mgpu-memory"},
		"core-150":             {world.pod("").container("c", "150", "3000"), "150"},
		"memory-100":           {world.pod("").container("c", "50", "100"), "256"},
		"annotation-garbage":   {world.pod("").share(100, 20000).annotation(multipleGPUKey, "two"), "container-multiple-gpu"},
		"annotation-too-long":  {world.pod("").share(100, 20000).annotation(multipleGPUKey, "2,2"), "container-multiple-gpu"},
		"nine-cards":           {world.pod("").share(90, 90*1024).annotation(multipleGPUKey, "9"), "fewer cards than"},
	} {
		t.Run(name, func(t *testing.T) {
			one.pod.pod.Name = name
			create(world.ctx, t, one.pod)
			waitPending(world.ctx, t, world.namespace, name, one.sentence)
		})
	}
	world.history.check(world.ctx, t)
}

func TestAmountsAreReadAsKubernetesWritesThem(t *testing.T) {
	world := newWorld(t, 2)
	for name, amounts := range map[string][2]string{
		"thousand":   {"50", "1k"},
		"exponent":   {"50", "1e3"},
		"plain-8000": {"50", "8000"},
		"binary":     {"50", "1Ki"},
		"core-1e2":   {"1e2", "2k"},
	} {
		create(world.ctx, t, world.pod(name).container("c", amounts[0], amounts[1]))
		waitBound(world.ctx, t, world.namespace, name)
	}
	half := world.pod("half").container("c", "0.5", "1024").build()
	_, err := plane.admin.CoreV1().Pods(world.namespace).Create(world.ctx, half, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("0.5 of an extended resource: %v, want the API server to reject it", err)
	}
	world.history.check(world.ctx, t)
}
