package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// serviceWorld has the replicas of the chart on a real node, and kube-scheduler reaches them by the cluster IP of their
// Service, through kube-proxy. Its other nodes have no kubelet, and take the pods that are bound.
type serviceWorld struct {
	*ReplicaWorld
	release *Release
	clock   *failoverClock
	mutex   sync.Mutex
	rules   [][]string // of iptables, which drop packets
}

// A leader that has not renewed the Lease for this time ends.
const leaseRenewed = 10 * time.Second

// TestFailoverServiceTimes runs only where MGPU_FAILOVER_RUNS is set; bench/failover.sh --kube-proxy sets it. It checks
// no times.
func TestFailoverServiceTimes(t *testing.T) {
	runs := failoverRuns(t)
	world := newServiceWorld(t)
	for _, kind := range []struct {
		name string
		end  func(leader string)
	}{
		{"the leader is killed, and its container starts again", world.kill},
		{"the pod of the leader is deleted", world.deletePod},
		{"the leader ends because of its Lease", world.endBecauseOfLease},
		{"the network of the leader is lost", world.cutOff},
	} {
		t.Run(kind.name, func(t *testing.T) {
			var times []failoverTimes
			for range runs {
				world.release.rollOut(t)
				leader := world.leaderPod()
				one, began := world.measure(world.clock, func() { kind.end(leader) })
				world.removeRules()
				one.parts = world.clock.parts(began, world.decidesSince(began))
				t.Logf("%s: %v, no pod bound for %v", kind.name, one.parts, one.first)
				times = append(times, one)
			}
			logTimes(t, kind.name, times)
		})
	}
	world.history.check(world.ctx, t)
}

func newServiceWorld(t *testing.T) *serviceWorld {
	t.Helper()
	release := installed(t)
	world := &serviceWorld{release: release, ReplicaWorld: &ReplicaWorld{t: t,
		World: &World{ctx: release.ctx, namespace: release.namespace}}}
	world.nodes = plane.createNodes(world.ctx, t, world.namespace+"-", timesNodes)
	for _, node := range world.nodes {
		world.label(node, "")
		world.taint(node)
	}
	world.startSchedulerOfService()
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	world.clock = world.newFailoverClockOf(releaseNamespace, true)
	t.Cleanup(world.removeRules)
	return world
}

// taint keeps the pods of the chart from a node.
func (w *serviceWorld) taint(node string) {
	w.t.Helper()
	patch := `{"spec":{"taints":[{"key":"` + worldLabel + `","effect":"NoSchedule"}]}}`
	_, err := plane.admin.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// startSchedulerOfService starts a kube-scheduler for the pods of this world, with the files of deploy/scheduler/files.sh.
func (w *serviceWorld) startSchedulerOfService() {
	w.t.Helper()
	folder := w.release.schedulerFiles(w.t, filepath.Join(w.release.folder, "measured"))
	command := w.schedulerCommand(SchedulerSetup{configurationPath: filepath.Join(folder, "kube-scheduler.yaml"),
		schedulerName: w.name()})
	process, err := command.start()
	if err != nil {
		w.t.Fatal(err)
	}
	process.endWithTest(w.t)
	waitListening(w.t, process, command.port)
}

// rollOut replaces all pods of the extender, so that kubelet starts a container that ends at once again.
func (r *Release) rollOut(t testing.TB) {
	t.Helper()
	r.kubectl(t, "rollout", "restart", "deployment/mgpu-extender", "--namespace", releaseNamespace)
	r.kubectl(t, "rollout", "status", "deployment/mgpu-extender", "--namespace", releaseNamespace, "--timeout=180s")
	waitFor(t, leaderTakesIn, "the new leader and no pods of before", func() (bool, string) {
		pods := r.extenderPods(t)
		slice, err := plane.admin.DiscoveryV1().EndpointSlices(releaseNamespace).Get(r.ctx, leaseName, metav1.GetOptions{})
		if err != nil || len(slice.Endpoints) != 1 || len(pods) != 2 {
			return false, "other endpoints or pods"
		}
		return slices.Contains([]string{pods[0].Status.PodIP, pods[1].Status.PodIP}, slice.Endpoints[0].Addresses[0]), ""
	})
}

// leaderPod returns the name of the pod that leads.
func (w *serviceWorld) leaderPod() string {
	w.t.Helper()
	lease, err := plane.admin.CoordinationV1().Leases(releaseNamespace).Get(w.ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	holder := *lease.Spec.HolderIdentity
	return holder[:strings.LastIndex(holder, "_")]
}

func (w *serviceWorld) kill(leader string) {
	w.release.node.killContainer(w.t, get(w.ctx, w.t, releaseNamespace, leader), "mgpu-extender")
}

func (w *serviceWorld) deletePod(leader string) {
	if err := plane.admin.CoreV1().Pods(releaseNamespace).Delete(w.ctx, leader, metav1.DeleteOptions{}); err != nil {
		w.t.Error(err)
	}
}

// cutOff drops all packets from and to the pod, as when its machine has lost its power: nobody answers that a connection
// has ended.
func (w *serviceWorld) cutOff(leader string) {
	address := get(w.ctx, w.t, releaseNamespace, leader).Status.PodIP
	w.drop("--source", address)
	w.drop("--destination", address)
}

// endBecauseOfLease drops what the pod sends to the API server until its container has ended, which then starts again.
func (w *serviceWorld) endBecauseOfLease(leader string) {
	address := get(w.ctx, w.t, releaseNamespace, leader).Status.PodIP
	w.drop("--source", address, "--protocol", "tcp", "--destination-port", fmt.Sprint(plane.apiServerPort))
	time.Sleep(leaseRenewed + time.Second)
	w.removeRules()
}

// drop drops packets.
func (w *serviceWorld) drop(which ...string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, chain := range []string{"INPUT", "OUTPUT", "FORWARD"} {
		rule := slices.Concat([]string{chain}, which, []string{"--jump", "DROP"})
		if output, err := runTool("iptables", append([]string{"--insert"}, rule...)...); err != nil {
			w.t.Error(output, err)
		}
		w.rules = append(w.rules, rule)
	}
}

// removeRules removes the rules of drop.
func (w *serviceWorld) removeRules() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, rule := range w.rules {
		if output, err := runTool("iptables", append([]string{"--delete"}, rule...)...); err != nil {
			w.t.Error(output, err)
		}
	}
	w.rules = nil
}

// decidesSince returns when the leader that followed began to decide, by its log.
func (w *serviceWorld) decidesSince(began time.Time) time.Time {
	w.t.Helper()
	pod := get(w.ctx, w.t, releaseNamespace, w.leaderPod())
	log := w.release.node.logOf(pod, "mgpu-extender")
	at, found := logTimeIn(log, began, ` "ready" nodes=`)
	if !found {
		w.t.Fatalf("the log of %s does not say when it was ready after %v:\n%s", pod.Name, began, log)
	}
	return at
}
