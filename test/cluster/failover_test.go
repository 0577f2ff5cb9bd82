package cluster

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The worlds of so many faults exist at the same time, because most of them wait for a Lease to expire.
const failoverWorlds = 5

// A fault acts while pods are created and bound. After it all pods are bound, and no card has been given away twice at
// any revision of etcd. The slowest come first.
var failoverFaults = []struct {
	name string
	run  func(t *testing.T)
}{
	{"a stopped leader goes on after a minute", withReplicas(stopLeaderForAMinute)},
	{"the clock of a replica is moved", withReplicas(moveClocks)},
	{"a kube-scheduler is killed and then a machine", killMachines},
	{"a stopped API server has a bind", stopAPIServerWithABind},
	{"the leader is cut off from the API server", withReplicas(cutLeaderFromAPIServer)},
	{"the machine of the leader is lost", withReplicas(loseMachine)},
	{"both replicas are killed", withReplicas(killBoth)},
	{"the work of the leader hangs", withReplicas(hangLeader)},
	{"the leader is killed", withReplicas(killLeader)},
	{"the leader with learned prices is killed", killLeaderWithPrices},
	{"the leader is cut off from kube-scheduler", withReplicas(cutLeaderFromScheduler)},
	{"the leader is shut down", withReplicas(shutLeaderDown)},
}

func TestFailover(t *testing.T) {
	places := make(chan struct{}, failoverWorlds)
	var group sync.WaitGroup
	for _, fault := range failoverFaults {
		places <- struct{}{}
		// With t.Parallel, as many would run as there are processors.
		group.Go(func() {
			defer func() { <-places }()
			t.Run(fault.name, fault.run)
		})
	}
	group.Wait()
}

// withReplicas returns a test with two replicas that have the default settings of the election.
func withReplicas(act func(w *ReplicaWorld)) func(t *testing.T) {
	return func(t *testing.T) {
		world := newReplicaWorld(t, extenderNodes)
		world.startReplicas(2)
		world.startScheduler("")
		world.leader()
		world.runFault(act)
	}
}

// runFault creates pods before and during the fault, and checks the end.
func (w *ReplicaWorld) runFault(act func(w *ReplicaWorld)) {
	w.t.Helper()
	const before = failoverPods / 4
	w.burst(0, before)
	w.waitBound(before / 2)
	var burst sync.WaitGroup
	burst.Go(func() { w.burst(before, failoverPods) })
	defer burst.Wait()
	act(w)
	burst.Wait()
	w.waitBound(failoverPods)
	w.checkFollowersHaveNoConnection()
	w.history.check(w.ctx, w.t)
}

// A connection of kube-scheduler to a replica that follows would keep its requests from the leader.
func (w *ReplicaWorld) checkFollowersHaveNoConnection() {
	w.t.Helper()
	for _, replica := range w.replicas {
		waitFor(w.t, leaderTakesIn, replica.name+" to lead or to have no connection", func() (bool, string) {
			_, text, err := replica.probe("/metrics")
			if err != nil {
				return false, err.Error()
			}
			open := readMetrics(text).with("mgpu_extender_http_connections", `listener="verbs"`)
			return replica.leads() || open == 0, fmt.Sprint(open, " connections")
		})
	}
}

func killLeader(w *ReplicaWorld) {
	w.leader().kill()
	w.leader()
}

func shutLeaderDown(w *ReplicaWorld) {
	process := w.leader().terminate()
	waitEnded(w.t, process)
	if code := process.command.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("the leader ended with code %d after SIGTERM, want 0:\n%s", code, process.logTail(10))
	}
	w.leader()
}

func killBoth(w *ReplicaWorld) {
	for _, replica := range w.replicas {
		replica.kill()
	}
	w.leader()
}

func stopLeaderForAMinute(w *ReplicaWorld) {
	leader := w.leader()
	old, stopped := leader.current(), time.Now()
	leader.signal(syscall.SIGSTOP)
	w.leader(leader)
	time.Sleep(time.Until(stopped.Add(time.Minute)))
	leader.signal(syscall.SIGCONT)
	waitEnded(w.t, old)
	w.checkReplaced(leader)
}

func cutLeaderFromAPIServer(w *ReplicaWorld) {
	leader := w.leader()
	old := leader.current()
	leader.apiServer.cut()
	w.leader(leader)
	waitEnded(w.t, old)
	w.checkReplaced(leader)
	leader.apiServer.mend() // what it had sent arrives now
	waitFor(w.t, leaderTakesIn, "the old leader to follow", leader.ready)
}

// loseMachine cuts the leader off from all others. All pods are bound before the machine is back.
func loseMachine(w *ReplicaWorld) {
	leader := w.leader()
	leader.cutOff()
	w.leader(leader)
	w.waitBound(failoverPods)
	leader.mend()
	waitFor(w.t, leaderTakesIn, "the old leader to follow", leader.ready)
}

// checkReplaced checks that the process of the replica has ended because it does not hold the Lease any more.
func (w *ReplicaWorld) checkReplaced(replica *Replica) {
	w.t.Helper()
	waitFor(w.t, time.Minute, "the end of the old leader to be noted", func() (bool, string) {
		replica.mutex.Lock()
		defer replica.mutex.Unlock()
		return replica.endedLeading > 0, ""
	})
}

// The Lease says nothing about the way from kube-scheduler to the leader. Pods wait until it is mended.
func cutLeaderFromScheduler(w *ReplicaWorld) {
	leader := w.leader()
	leader.scheduler.cut()
	waitFor(w.t, leaderTakesIn, "kube-scheduler to miss the leader", func() (bool, string) {
		pods, err := list(w.ctx, w.namespace)
		if err != nil {
			return false, err.Error()
		}
		for i := range pods {
			if pods[i].Spec.NodeName == "" && isSchedulerError(&pods[i]) {
				return true, ""
			}
		}
		return false, "no pod has an error of kube-scheduler"
	})
	leader.scheduler.mend()
}

// A candidate compares no clocks: one that is an hour ahead takes no Lease that is renewed, and one whose leader was
// an hour ahead does not wait for an hour.
func moveClocks(w *ReplicaWorld) {
	leader := w.leader()
	follower, holder, old := w.other(leader), w.holder(), leader.current()
	follower.clock.move(time.Hour)
	time.Sleep(20 * time.Second) // longer than the Lease lasts
	// A leader that could not renew its Lease, on a slow machine, has lost it rightly.
	if now := w.holder(); now != holder && (old.running() || old.logs("its holder is ")) {
		w.t.Errorf("the lease has the holder %s, want %s, which renews it", now, holder)
	}
	follower.clock.move(0)
	leader = w.leader()
	leader.clock.move(time.Hour)
	w.waitRenewed(time.Now().Add(30 * time.Minute))
	leader.kill()
	w.leader()
}

// waitRenewed waits until the time in the Lease is later than this.
func (w *ReplicaWorld) waitRenewed(after time.Time) {
	w.t.Helper()
	waitFor(w.t, leaderTakesIn, "the lease to have the moved time", func() (bool, string) {
		renewed := w.lease().Spec.RenewTime
		return renewed != nil && renewed.After(after), renewed.String()
	})
}

func waitEnded(t testing.TB, process *Process) {
	t.Helper()
	waitFor(t, leaderTakesIn, process.name+" to end", func() (bool, string) { return !process.running(), "it runs" })
}
