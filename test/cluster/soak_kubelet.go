package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lifecycle does what kubelets and the owners of pods do: it starts pods, ends them, deletes them, removes
// terminated pods and finalizers. It looks at all pods again and again, so a request that failed is
// repeated by the next round.
type Lifecycle struct {
	soak     *Soak
	deleting bool // whether the owners delete pods
	mutex    sync.Mutex
	busy     map[types.UID]bool
	work     chan func()
}

const (
	lifecycleInterval = 500 * time.Millisecond
	lifecycleWorkers  = 6
	lifecycleQueue    = 256
	meanLifetime      = 80 * time.Second
	longGrace         = 3600
)

func newLifecycle(soak *Soak) *Lifecycle {
	return &Lifecycle{soak: soak, deleting: true, busy: map[types.UID]bool{},
		work: make(chan func(), lifecycleQueue)}
}

// run works until the context ends.
func (l *Lifecycle) run(ctx context.Context) {
	var group sync.WaitGroup
	for range lifecycleWorkers {
		group.Go(func() {
			for one := range l.work {
				one()
			}
		})
	}
	for ctx.Err() == nil {
		for _, pod := range l.soak.pods.present() {
			l.consider(ctx, pod)
		}
		time.Sleep(lifecycleInterval)
	}
	close(l.work)
	group.Wait()
}

func (l *Lifecycle) stopDeleting() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.deleting = false
}

// consider queues the next step of a pod, unless one is under way or the queue is full.
func (l *Lifecycle) consider(ctx context.Context, pod SoakPod) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	step := l.next(pod, time.Now())
	if step == nil || l.busy[pod.pod.UID] {
		return
	}
	select {
	case l.work <- func() { l.take(ctx, pod.pod, step) }:
		l.busy[pod.pod.UID] = true
	default:
	}
}

// Step is a request about a pod.
type Step func(ctx context.Context, pod *corev1.Pod) error

func (l *Lifecycle) take(ctx context.Context, pod *corev1.Pod, step Step) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l.soak.counts.note("lifecycle", step(ctx, pod))
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.busy, pod.UID)
}

// next returns the next step of a pod, or nil. The caller holds the mutex.
func (l *Lifecycle) next(pod SoakPod, now time.Time) Step {
	if !pod.deleting.IsZero() {
		return l.nextOfTerminating(pod, now)
	}
	if l.deleting && now.Sub(pod.created) > l.lifetime(pod) {
		return l.deletion(pod)
	}
	if pod.bound.IsZero() {
		return nil
	}
	running := now.Sub(pod.bound)
	switch {
	case pod.pod.Status.Phase == corev1.PodPending && running > l.seconds(pod, "start", 3):
		return setPhase(corev1.PodRunning)
	case pod.pod.Status.Phase == corev1.PodRunning && l.draw(pod, "ends") < 0.25 && running > l.lifetime(pod)*6/10:
		if l.draw(pod, "fails") < 0.3 {
			return setPhase(corev1.PodFailed)
		}
		return setPhase(corev1.PodSucceeded)
	}
	return nil
}

// nextOfTerminating ends the containers within the grace period, and removes the pod. A finalizer
// keeps a terminated pod for some time.
func (l *Lifecycle) nextOfTerminating(pod SoakPod, now time.Time) Step {
	since := now.Sub(pod.deleting)
	grace := time.Duration(0)
	if seconds := pod.pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if len(pod.pod.Finalizers) > 0 && since > l.seconds(pod, "finalizer", 20) {
		return removeFinalizers
	}
	if since < min(grace, l.seconds(pod, "end", 8)) {
		return nil
	}
	if len(pod.pod.Finalizers) == 0 {
		return remove // also where the API server was killed after it had marked the pod
	}
	if !pod.bound.IsZero() && !isTerminated(pod.pod) {
		return setPhase(corev1.PodFailed)
	}
	return nil
}

// draw returns a number from 0 to 1 that depends on the name of the pod, the purpose and the seed only.
func (l *Lifecycle) draw(pod SoakPod, purpose string) float64 {
	hash := fnv.New64a()
	fmt.Fprint(hash, l.soak.seed, "/", purpose, "/", pod.key)
	return rand.New(rand.NewPCG(hash.Sum64(), 0)).Float64()
}

// seconds draws a duration of up to this number of seconds.
func (l *Lifecycle) seconds(pod SoakPod, purpose string, most float64) time.Duration {
	return time.Duration(l.draw(pod, purpose) * most * float64(time.Second))
}

// lifetime is distributed exponentially.
func (l *Lifecycle) lifetime(pod SoakPod) time.Duration {
	mean := float64(meanLifetime)
	return time.Duration(min(8*mean, -math.Log(1-l.draw(pod, "lifetime"))*mean)) + time.Second
}

// deletion deletes a pod as its owner: at once, with the grace period of the pod, or with a long one.
func (l *Lifecycle) deletion(pod SoakPod) Step {
	now, long := int64(0), int64(longGrace)
	grace := []*int64{&now, nil, nil, &long}[int(l.draw(pod, "grace")*4)]
	return func(ctx context.Context, pod *corev1.Pod) error {
		return deletePod(ctx, pod, grace)
	}
}

func deletePod(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	return plane.admin.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// remove removes a terminated pod as kubelet does.
func remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return deletePod(ctx, pod, &now)
}

func setPhase(phase corev1.PodPhase) Step {
	return func(ctx context.Context, pod *corev1.Pod) error {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
		return patchPod(ctx, plane.admin, pod, patch, "status")
	}
}

func removeFinalizers(ctx context.Context, pod *corev1.Pod) error {
	return patchPod(ctx, plane.admin, pod, fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, pod.UID))
}
