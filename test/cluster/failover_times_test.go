package cluster

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The parts of a failover, in their order. Each begins where the one before ends.
const (
	partLease = iota
	partStart
	partEndpoint
	partBind
	failoverParts
)

var failoverPartNames = [failoverParts]string{
	"until the Lease has the new holder",
	"start sequence, until the new leader decides",
	"until the EndpointSlice has its address",
	"until it binds the first pod",
}

// failoverTimes are those of one run.
type failoverTimes struct {
	parts [failoverParts]time.Duration // zero where the extenders have no EndpointSlice
	first time.Duration                // from the end of the leader until a pod is bound
	all   time.Duration                // until no pod waits
}

const (
	timesNodes      = 40
	arrivalInterval = 100 * time.Millisecond // a new pod does not wait for a backoff of kube-scheduler
	logTimeLayout   = "2006-01-02T15:04:05.000Z"
)

// TestFailoverTimes runs only where MGPU_FAILOVER_RUNS is set; bench/failover.sh sets it. It checks no times.
func TestFailoverTimes(t *testing.T) {
	runs := failoverRuns(t)
	t.Run("replicas", func(t *testing.T) { measureReplicas(t, runs) })
	t.Run("machines", func(t *testing.T) { measureMachines(t, runs) })
}

func failoverRuns(t *testing.T) int {
	t.Helper()
	text := os.Getenv("MGPU_FAILOVER_RUNS")
	if text == "" {
		t.Skip("MGPU_FAILOVER_RUNS is not set; bench/failover.sh sets it")
	}
	runs, err := strconv.Atoi(text)
	if err != nil || runs < 1 || runs > 999 {
		t.Fatalf("MGPU_FAILOVER_RUNS is %q, want a number from 1 to 999", text)
	}
	return runs
}

// measureReplicas measures two replicas behind a Service.
func measureReplicas(t *testing.T, runs int) {
	world := newReplicaWorld(t, timesNodes)
	world.startReplicas(2)
	world.startScheduler("")
	clock := world.newFailoverClock(true)
	for _, kind := range []struct {
		name string
		end  func(leader *Replica)
	}{
		{"the leader is killed, and starts again", (*Replica).kill},
		{"the leader is shut down", func(leader *Replica) { leader.terminate() }},
		{"the leader ends because of its Lease", (*Replica).endBecauseOfLease},
		{"the machine of the leader is lost", (*Replica).cutOff},
	} {
		t.Run(kind.name, func(t *testing.T) {
			var times []failoverTimes
			for range runs {
				leader := world.leader()
				one, began := world.measure(clock, func() { kind.end(leader) })
				leader.mend()
				decides := world.other(leader).logTime(began, ` "ready" nodes=`)
				one.parts = clock.parts(began, decides)
				times = append(times, one)
			}
			logTimes(t, kind.name, times)
		})
	}
	world.history.check(world.ctx, t)
}

// measureMachines measures three kube-schedulers that each have an extender.
func measureMachines(t *testing.T, runs int) {
	world := newReplicaWorld(t, timesNodes)
	machines := world.startMachines()
	clock := world.newFailoverClock(false)
	for _, whole := range []bool{false, true} {
		var times []failoverTimes
		for range runs {
			create(world.ctx, t, world.pod("first").share(10, 1000))
			world.waitBound(1)
			active := world.activeMachine(machines)
			one, _ := world.measure(clock, func() { active.kill(whole) })
			active.startScheduler(t)
			times = append(times, one)
		}
		logTimes(t, map[bool]string{false: "the active kube-scheduler is killed",
			true: "the active kube-scheduler and its extender are killed"}[whole], times)
	}
	world.history.check(world.ctx, t)
}

// failoverClock notes when the parts of a failover end.
type failoverClock struct {
	hasEndpoint bool // requests of kube-scheduler follow the EndpointSlice

	mutex   sync.Mutex
	holder  string
	address string
	bound   map[string]bool
	taken   time.Time // the Lease got another holder
	moved   time.Time // the EndpointSlice got another address
	first   time.Time // the first pod was bound after these
}

func (w *ReplicaWorld) newFailoverClock(hasEndpoint bool) *failoverClock {
	return w.newFailoverClockOf(w.namespace, hasEndpoint)
}

// newFailoverClockOf returns a clock for extenders in another namespace than that of the pods.
func (w *ReplicaWorld) newFailoverClockOf(extenders string, hasEndpoint bool) *failoverClock {
	clock := &failoverClock{hasEndpoint: hasEndpoint, bound: map[string]bool{}}
	follow(w, plane.admin.CoordinationV1().Leases(extenders).Watch, func(lease *coordinationv1.Lease) {
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
			clock.note(func(now time.Time) { setAt(&clock.holder, *holder, &clock.taken, now) })
		}
	})
	follow(w, plane.admin.DiscoveryV1().EndpointSlices(extenders).Watch, func(slice *discoveryv1.EndpointSlice) {
		if len(slice.Endpoints) > 0 {
			clock.note(func(now time.Time) { setAt(&clock.address, slice.Endpoints[0].Addresses[0], &clock.moved, now) })
		}
	})
	follow(w, plane.admin.CoreV1().Pods(w.namespace).Watch, func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" {
			clock.note(func(now time.Time) { clock.noteBound(pod.Name, now) })
		}
	})
	return clock
}

func (c *failoverClock) note(what func(now time.Time)) {
	now := time.Now()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	what(now)
}

func setAt(value *string, next string, at *time.Time, now time.Time) {
	if *value != next {
		*value, *at = next, now
	}
}

func (c *failoverClock) noteBound(pod string, now time.Time) {
	if c.bound[pod] {
		return
	}
	c.bound[pod] = true
	if c.first.IsZero() && c.leads() {
		c.first = now
	}
}

// leads returns whether the requests of kube-scheduler reach the new leader.
func (c *failoverClock) leads() bool {
	return !c.taken.IsZero() && (!c.hasEndpoint || !c.moved.IsZero())
}

// begin forgets all times.
func (c *failoverClock) begin() {
	c.note(func(time.Time) { c.taken, c.moved, c.first = time.Time{}, time.Time{}, time.Time{} })
}

func (c *failoverClock) complete() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return !c.first.IsZero()
}

// parts returns the parts of a failover to a leader that decides since then.
func (c *failoverClock) parts(began, decides time.Time) [failoverParts]time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return [failoverParts]time.Duration{c.taken.Sub(began), decides.Sub(c.taken), c.moved.Sub(decides),
		c.first.Sub(c.moved)}
}

// measure ends the leader while pods arrive, and returns the times without the parts. Then it deletes all pods.
func (w *ReplicaWorld) measure(clock *failoverClock, end func()) (times failoverTimes, began time.Time) {
	w.t.Helper()
	for _, replica := range w.replicas {
		waitFor(w.t, leaderTakesIn, replica.name+" to be ready", replica.ready)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var arrivals sync.WaitGroup
	arrivals.Go(func() { w.arrive(ctx) })
	defer arrivals.Wait()
	defer cancel()
	w.waitBound(10)
	time.Sleep(time.Duration(rand.Int63n(int64(2 * time.Second)))) // the leader renews the Lease every 2 s
	clock.begin()
	began = time.Now()
	go end()
	waitFor(w.t, leaderTakesIn, "the failover", func() (bool, string) { return clock.complete(), "" })
	cancel()
	arrivals.Wait()
	w.waitAllBound()
	times.first, times.all = clock.first.Sub(began), time.Since(began)
	removePods(w.namespace)
	waitFor(w.t, leaderTakesIn, "no pods", func() (bool, string) {
		pods, err := list(w.ctx, w.namespace)
		return err == nil && len(pods) == 0, fmt.Sprint(len(pods), err)
	})
	return times, began
}

// arrive creates small pods until the context ends.
func (w *ReplicaWorld) arrive(ctx context.Context) {
	run := time.Now().UnixNano()
	for i := 0; ctx.Err() == nil; i++ {
		pod := w.pod(fmt.Sprintf("arrival-%d-%d", run, i)).share(10, 1000).build()
		if _, err := plane.admin.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{}); err != nil {
			w.t.Error(err)
		}
		time.Sleep(arrivalInterval)
	}
}

func (w *ReplicaWorld) waitAllBound() {
	w.t.Helper()
	waitFor(w.t, failoverLimit, "all pods to be bound", func() (bool, string) {
		pods, err := list(w.ctx, w.namespace)
		if err != nil {
			return false, err.Error()
		}
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
		return at < 0, fmt.Sprint("pod ", at, " is pending")
	})
}

// logTime returns the time of the first line of the log after a time that contains the text.
func (r *Replica) logTime(after time.Time, text string) time.Time {
	r.t.Helper()
	log, err := os.ReadFile(r.extender.logPath)
	if err != nil {
		r.t.Fatal(err)
	}
	at, found := logTimeIn(string(log), after, text)
	if !found {
		r.t.Fatalf("%s has no line with %q after %v", r.extender.logPath, text, after)
	}
	return at
}

func logTimeIn(log string, after time.Time, text string) (at time.Time, found bool) {
	for line := range strings.Lines(log) {
		stamp, rest, _ := strings.Cut(line, " ")
		at, err := time.Parse(logTimeLayout, stamp)
		if err == nil && at.After(after) && strings.Contains(" "+rest, text) {
			return at, true
		}
	}
	return after, false
}

// logTimes prints the least, the median and the greatest time of each part and of their sum, in seconds.
func logTimes(t *testing.T, name string, times []failoverTimes) {
	t.Helper()
	t.Logf("%-52s %7s %7s %7s", fmt.Sprintf("%s, %d runs", name, len(times)), "least", "median", "most")
	if times[0].parts[partEndpoint] != 0 {
		for part, name := range failoverPartNames {
			logRow(t, name, times, func(one failoverTimes) time.Duration { return one.parts[part] })
		}
	}
	logRow(t, "no pod is bound", times, func(one failoverTimes) time.Duration { return one.first })
	logRow(t, "until no pod waits any more", times, func(one failoverTimes) time.Duration { return one.all })
}

func logRow(t *testing.T, name string, times []failoverTimes, of func(one failoverTimes) time.Duration) {
	t.Helper()
	var sorted []time.Duration
	for _, one := range times {
		sorted = append(sorted, of(one))
	}
	slices.Sort(sorted)
	t.Logf("%-52s %7.2f %7.2f %7.2f", name, sorted[0].Seconds(), sorted[len(sorted)/2].Seconds(),
		sorted[len(sorted)-1].Seconds())
}
