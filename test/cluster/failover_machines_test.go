package cluster

import (
	"fmt"
	"sync"
	"testing"
)

// Machine is a control-plane machine: a kube-scheduler that elects a leader with the others, and an extender on its
// loopback address that leads when this kube-scheduler asks it.
type Machine struct {
	replica   *Replica
	command   SchedulerCommand
	scheduler *Process
}

func (w *ReplicaWorld) newMachine() *Machine {
	w.t.Helper()
	machine := &Machine{replica: w.startReplica(plane.serverURL(), "--lead-when-asked")}
	machine.command = w.schedulerCommand(SchedulerSetup{configuration: "kube-scheduler.yaml",
		extenderURL: machine.replica.extender.url(), schedulerName: w.name(), elects: true})
	return machine
}

func (m *Machine) startScheduler(t testing.TB) {
	t.Helper()
	var err error
	if m.scheduler, err = m.command.start(); err != nil {
		t.Fatal(err)
	}
	m.scheduler.endWithTest(t)
}

// startMachines starts three machines.
func (w *ReplicaWorld) startMachines() []*Machine {
	w.t.Helper()
	machines := make([]*Machine, 3)
	for i := range machines {
		machines[i] = w.newMachine()
	}
	for _, machine := range machines {
		machine.startScheduler(w.t)
	}
	return machines
}

// kill ends kube-scheduler, or both programs. Only the extender is started again.
func (m *Machine) kill(whole bool) {
	m.scheduler.Kill()
	if whole {
		m.replica.kill()
	}
}

// Three kube-schedulers elect a leader, and each asks the extender beside it. When another kube-scheduler leads, the
// extender beside it takes the Lease, whether the extender that held it still runs or not.
func killMachines(t *testing.T) {
	world := newReplicaWorld(t, extenderNodes)
	machines := world.startMachines()
	world.burst(0, failoverPods/4)
	world.waitBound(failoverPods / 4)
	for round, whole := range []bool{false, true} {
		active := world.activeMachine(machines)
		first := failoverPods / 4 * (round + 1)
		var burst sync.WaitGroup
		burst.Go(func() { world.burst(first, first+failoverPods/8) })
		active.kill(whole)
		burst.Wait()
		world.burst(first+failoverPods/8, first+failoverPods/4)
		world.waitBound(first + failoverPods/4)
		// One that was replaced learns it when it renews its Lease.
		waitFor(t, leaderTakesIn, "another machine to lead than that whose kube-scheduler was killed", func() (bool, string) {
			return world.activeMachine(machines) != active, "it leads"
		})
		active.startScheduler(t)
	}
	world.burst(failoverPods/4*3, failoverPods)
	world.waitBound(failoverPods)
	world.history.check(world.ctx, t)
}

// activeMachine returns the machine whose kube-scheduler binds pods: its extender leads.
func (w *ReplicaWorld) activeMachine(machines []*Machine) *Machine {
	w.t.Helper()
	leader := w.leader()
	for _, machine := range machines {
		if machine.replica == leader {
			return machine
		}
	}
	w.t.Fatal(fmt.Sprint("the leader ", leader.name, " is on no machine"))
	return nil
}
