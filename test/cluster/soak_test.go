package cluster

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Soak runs arrivals, deletions, edits and kills for a given time. It starts, ends and removes pods as kubelets would.
// Ordinary users create pods of all kinds, some with finalizers or grace periods of 0 or of an hour; a hostile tenant and
// an administrator edit annotations while pods are being bound. It fails if
//
//   - any revision of a pod in etcd violates a promise: a card over its capacity, a bound pod without its cards, a pod with
//     cards that is not bound, or cards of a bound pod that change;
//   - the API server accepts an edit or a pod that the policies must refuse, or a pod with an absurd request is bound;
//   - mgpu-extender ends by itself;
//   - after the last kill, a pending pod fits on the cards of a node, by an exhaustive search that shares no code with the
//     extender, and is not bound within settleCyclesPerPod scheduling cycles for each pending pod;
//   - the ledger differs from what the pods hold, or shows anything in use after the last pod is deleted;
//   - in the last life, the memory, the open files or the threads of mgpu-extender grow from the first to the last third.
type Soak struct {
	seed      int64
	length    time.Duration
	nodes     []string
	extender  *Extender
	tenant    kubernetes.Interface // of the user nobody, who may do everything with pods of one namespace
	pods      *SoakPods
	counts    *SoakCounts
	counters  Metrics // of the ended lives of the extender
	lives     []Life
	faulty    map[string]*SoakProcess
	lifecycle *Lifecycle
	revisions []int64 // of etcd, one a minute
}

const (
	soakNodes = 100
	// As with the default of kube-apiserver, etcd keeps the revisions of the last minutes.
	minutesOfRevisions = 5
	// After the faults, each pending pod may take this many scheduling cycles in the mean until all pods
	// that fit are bound. Those that do not fit are tried again after each release: kube-scheduler waits at
	// most ten seconds between two attempts, so that a pod has some 24 of them within settleLimit, and more
	// while its backoff is shorter.
	settleCyclesPerPod = 40
	settleLimit        = 4 * time.Minute
	quietLimit         = 2 * time.Minute
)

// TestSoak runs only where MGPU_SOAK_MINUTES is set; bench/soak.sh sets it.
func TestSoak(t *testing.T) {
	soak := newSoak(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	soak.prepare(ctx, t)
	var lifecycle sync.WaitGroup
	lifecycle.Go(func() { soak.lifecycle.run(ctx) })
	begun := time.Now()
	soak.runUsersAndFaults(ctx, t)
	ran := time.Since(begun)
	soak.settle(t)
	soak.compareLedger(t)
	soak.removeAllPods(ctx, t)
	soak.checkQuiet(t)
	cancel()
	lifecycle.Wait()
	soak.endLife()
	soak.report(t, ran)
	soak.checkFlat(t)
	soak.checkViolations(t)
}

func newSoak(t *testing.T) *Soak {
	t.Helper()
	text := os.Getenv("MGPU_SOAK_MINUTES")
	if text == "" {
		t.Skip("MGPU_SOAK_MINUTES is not set; bench/soak.sh sets it")
	}
	minutes, err := strconv.ParseFloat(text, 64)
	if err != nil || minutes < 2 || minutes > 24*60 {
		t.Fatalf("MGPU_SOAK_MINUTES is %q, want a number from 2 to 1440", text)
	}
	seed, err := strconv.ParseInt(os.Getenv("MGPU_SOAK_SEED"), 10, 64)
	if err != nil {
		t.Fatalf("MGPU_SOAK_SEED: %v", err)
	}
	soak := &Soak{seed: seed, length: time.Duration(minutes * float64(time.Minute)), pods: newSoakPods(),
		counts: &SoakCounts{counts: map[string]int{}}, counters: Metrics{}}
	soak.lifecycle = newLifecycle(soak)
	t.Logf("soak of %v with seed %d", soak.length, seed)
	return soak
}

// prepare creates namespaces and nodes and starts all processes.
func (s *Soak) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, name := range append([]string{hostileNamespace}, soakNamespaces...) {
		if err := plane.createNamespace(ctx, name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removePods(name) })
	}
	createPriorityClass(ctx, t, soakPriority, 1000)
	grantPods(ctx, t, hostileNamespace, "nobody", "pods", "pods/ephemeralcontainers", "pods/resize", "pods/eviction")
	s.tenant = tenantClient(t)
	policies := &PolicyWorld{ctx: ctx, namespace: hostileNamespace, tenant: s.tenant}
	policies.waitPolicies(t)
	s.nodes = plane.createNodes(ctx, t, "gpu-", soakNodes)
	if err := s.pods.follow(ctx); err != nil {
		t.Fatal(err)
	}
	s.extender = plane.extenderOn(t, "http", http.DefaultClient)
	s.startLife(t)
	s.extender.waitReady(t)
	s.extender.waitNodes(t, soakNodes)
	s.faulty = s.processes(t, plane.schedulerCommand(t,
		SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: s.extender.url()}))
}

// tenantClient returns a client of the user nobody with a higher limit than the default, 5 requests per second.
func tenantClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: plane.serverURL(), BearerToken: nobodyToken,
		QPS: 500, Burst: 500, TLSClientConfig: rest.TLSClientConfig{CAFile: plane.authority.file()}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// runUsersAndFaults runs the users beside the faults, until the time is over and all processes run again.
func (s *Soak) runUsersAndFaults(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	users := s.startUsers(ctx)
	s.progressHead(t)
	begun, sampled, minute := time.Now(), time.Time{}, 0
	faults := planFaults(rand.New(rand.NewSource(s.seed)), s.length)
	for time.Since(begun) < s.length {
		for len(faults) > 0 && time.Since(begun) >= faults[0].at {
			s.faulty[faults[0].process].kill(faults[0].down)
			faults = faults[1:]
		}
		s.tend(t)
		if time.Since(sampled) >= sampleInterval {
			s.sample()
			sampled = time.Now()
		}
		if int(time.Since(begun).Minutes()) > minute {
			minute++
			s.progress(t, minute)
			s.compact(ctx)
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	users.Wait()
	s.progress(t, minute+1)
	s.lifecycle.stopDeleting()
}

// compact removes the revisions of etcd that are older than some minutes; it is called once a minute. The
// API server would do it only if it were not killed for ten minutes.
func (s *Soak) compact(ctx context.Context) {
	s.revisions = append(s.revisions, s.pods.latest())
	if len(s.revisions) <= minutesOfRevisions {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err := plane.history.Compact(ctx, s.revisions[0])
	s.counts.note("compaction of etcd", err)
	s.revisions = s.revisions[1:]
}

// tend starts processes again, and ends the test if it can no longer see all changes of pods.
func (s *Soak) tend(t *testing.T) {
	t.Helper()
	for _, process := range s.faulty {
		process.tend(t)
	}
	s.pods.mutex.Lock()
	defer s.pods.mutex.Unlock()
	if s.pods.ended != nil {
		t.Fatalf("the changes of pods cannot be followed: %v", s.pods.ended)
	}
}

func (s *Soak) startUsers(ctx context.Context) *sync.WaitGroup {
	var group sync.WaitGroup
	everyNamespace := append([]string{hostileNamespace}, soakNamespaces...)
	hostileOnly := []string{hostileNamespace}
	harmless := func(_ *corev1.Pod, random *rand.Rand) Edit { return harmlessEdit(random) }
	for stream, user := range []func(random *rand.Rand){
		func(random *rand.Rand) { s.arrivals(ctx, random) },
		func(random *rand.Rand) { s.absurdArrivals(ctx, random) },
		func(random *rand.Rand) { s.recreations(ctx, random) },
		func(random *rand.Rand) {
			s.edits(ctx, random, plane.admin, everyNamespace, administratorEdit, 500*time.Millisecond)
		},
		func(random *rand.Rand) { s.edits(ctx, random, s.tenant, hostileOnly, harmless, 300*time.Millisecond) },
		func(random *rand.Rand) {
			s.edits(ctx, random, s.tenant, hostileOnly, hostileEdit, 100*time.Millisecond)
		},
	} {
		group.Go(func() { user(rand.New(rand.NewSource(s.seed + int64(stream) + 1))) })
	}
	return &group
}

// waitSoak waits until `why` returns "", while processes that end are started again.
func (s *Soak) waitSoak(t *testing.T, limit time.Duration, what string, why func() string) bool {
	t.Helper()
	err := pollEvery(burstPollInterval, limit, what, func() (bool, string) {
		s.tend(t)
		said := why()
		return said == "", said
	})
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// settle waits, without faults, until every pod that fits is bound and no pod is terminating.
func (s *Soak) settle(t *testing.T) {
	t.Helper()
	if !s.waitSoak(t, time.Minute, "all processes to run", s.notRunning) {
		return
	}
	_, pending, _ := s.pods.counts()
	before := s.extender.metrics(t).with(verbSeconds+"_count", `verb="filter"`)
	if !s.waitSoak(t, settleLimit, "all pods that fit to be bound", func() string { return s.pods.unbound(s.nodes) }) {
		return
	}
	cycles := s.extender.metrics(t).with(verbSeconds+"_count", `verb="filter"`) - before
	_, left, _ := s.pods.counts()
	t.Logf("after the faults: %d pods pending; %.0f scheduling cycles later %d, and none of them fits (%d have requests "+
		"or annotations that are rejected anywhere)", pending, cycles, left, s.pods.unsound())
	if most := float64(settleCyclesPerPod * (pending + 1)); cycles > most {
		t.Errorf("%.0f scheduling cycles, want at most %.0f", cycles, most)
	}
}

// notRunning returns which process is not ready, or "".
func (s *Soak) notRunning() string {
	for name, process := range s.faulty {
		if !process.startAt.IsZero() || !process.process().running() {
			return name + " does not run"
		}
	}
	if err := plane.waitReady(time.Second); err != nil {
		return err.Error()
	}
	status, body, err := s.extender.get("/readyz")
	if err != nil || status != http.StatusOK {
		return fmt.Sprint("mgpu-extender is not ready: ", status, " ", body, " ", err)
	}
	return ""
}

// compareLedger compares the ledger with the pods, and the watched pods with those of the API server.
func (s *Soak) compareLedger(t *testing.T) {
	t.Helper()
	if !s.waitSoak(t, quietLimit, "the ledger to equal the pods", s.difference) {
		return
	}
	listed, err := list(context.Background(), "")
	if err != nil {
		t.Error(err)
		return
	}
	present, pending, _ := s.pods.counts()
	bound := 0
	for i := range listed {
		if listed[i].Spec.NodeName != "" {
			bound++
		}
	}
	if len(listed) != present || bound != present-pending {
		t.Errorf("the API server has %d pods, %d bound; etcd has %d, %d bound", len(listed), bound, present, present-pending)
	}
	t.Logf("the ledger equals the pods of the API server: %d bound, %d pending", bound, pending)
}

// removeAllPods deletes all pods without a grace period. The lifecycle removes the finalizers.
func (s *Soak) removeAllPods(ctx context.Context, t *testing.T) {
	t.Helper()
	now := int64(0)
	s.waitSoak(t, quietLimit, "all pods to be removed", func() string {
		for _, namespace := range append([]string{hostileNamespace}, soakNamespaces...) {
			if err := plane.admin.CoreV1().Pods(namespace).DeleteCollection(ctx,
				metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
				return err.Error()
			}
		}
		if present, _, _ := s.pods.counts(); present > 0 {
			return fmt.Sprint(present, " pods")
		}
		return ""
	})
}

// checkQuiet checks that nothing is left in the extender.
func (s *Soak) checkQuiet(t *testing.T) {
	t.Helper()
	if s.waitSoak(t, quietLimit, "the extender to release everything", s.leftOver) {
		t.Log("without pods, /inspect/cluster and the metrics have nothing allocated, assumed, expected or in flight")
	}
}

func (s *Soak) checkViolations(t *testing.T) {
	t.Helper()
	s.pods.mutex.Lock()
	defer s.pods.mutex.Unlock()
	t.Logf("history: %d revisions of pods and %d binds checked, %d violations", s.pods.totals.revisions,
		s.pods.history.binds, s.pods.violated)
	for _, violation := range s.pods.violations {
		t.Error(violation)
	}
	if left := s.pods.violated - len(s.pods.violations); left > 0 {
		t.Errorf("and %d more", left)
	}
	if s.pods.totals.bound == 0 {
		t.Error("no pod was bound")
	}
}

// report prints what has happened.
func (s *Soak) report(t *testing.T, ran time.Duration) {
	t.Helper()
	_, _, totals := s.pods.counts()
	t.Logf("pods: %d created, %d bound (%.1f/s), %d removed; longest time from creation to binding %.1f s (%s)",
		totals.created, totals.bound, float64(totals.bound)/ran.Seconds(), totals.removed,
		totals.longestBind.Seconds(), totals.longestName)
	t.Logf("edits: %d done, %d refused by the policy %s, %d refused as invalid", s.counts.sum("edit", "done"),
		s.counts.sum("edit", "refused"), cardsPolicy, s.counts.sum("edit", "Invalid"))
	bound := s.counters.with(bindsTotal, `outcome="bound"`)
	t.Logf("binds by mgpu-extender: %.0f, and %.0f that failed; %.0f touches", bound, s.counters.with(bindsTotal)-bound,
		s.counters.with(touchesTotal))
	for _, name := range []string{extenderProcess, schedulerProcess, apiServerProcess} {
		t.Logf("%s: killed %d times, ended by itself %d times", name, s.faulty[name].kills, s.faulty[name].ownEnds)
	}
	t.Log("requests of users, kubelets and owners, by result:")
	for _, line := range s.counts.lines() {
		t.Log(line)
	}
	t.Log("counters of mgpu-extender, over all its lives:")
	for _, name := range []string{verbSeconds + "_count", bindsTotal, "mgpu_extender_bind_conflicts_total", touchesTotal,
		"mgpu_extender_requeues_total", "mgpu_extender_drifts_total", "mgpu_extender_watch_problems_total",
		"mgpu_extender_unreadable_objects_total", "mgpu_extender_bad_requests_total"} {
		for _, line := range s.counters.lines(name) {
			t.Log(line)
		}
	}
	s.reportLives(t)
}
