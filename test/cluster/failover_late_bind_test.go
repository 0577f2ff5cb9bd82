package cluster

import (
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An API server is stopped with a bind of the leader in its receive buffer. Another replica takes over at another API
// server, and gives the cards to another pod. Then the first API server reads the bind.
func stopAPIServerWithABind(t *testing.T) {
	world := newReplicaWorld(t, extenderNodes+1)
	server := plane.startStoppedServer(t, "late")
	leader := world.startEndpointReplica(server.url)
	world.leader()
	other := world.startEndpointReplica(plane.serverURL())
	world.startScheduler()
	wanted := world.nodes[extenderNodes]
	world.label(wanted, "late")
	world.burst(0, failoverPods/4)
	create(world.ctx, t, world.inSlot("late"))
	waitFor(t, failoverLimit, "the API server to hold a bind", func() (bool, string) { return server.holds(), "" })
	var burst sync.WaitGroup
	burst.Go(func() { world.burst(failoverPods/4, failoverPods) })
	defer burst.Wait()
	world.label(wanted, "next")
	create(world.ctx, t, world.inSlot("next"))
	world.leader(leader)
	if node := waitBound(world.ctx, t, world.namespace, "next").Spec.NodeName; node != wanted {
		t.Errorf("the pod next is on %s, want %s", node, wanted)
	}
	if status, body := server.resume(t); status != http.StatusConflict {
		t.Errorf("the late bind: %d %.300s, want 409", status, body)
	}
	if node := get(world.ctx, t, world.namespace, "late").Spec.NodeName; node != "" {
		t.Errorf("the pod late is on %s after its bind was refused", node)
	}
	waitFor(t, leaderTakesIn, "the old leader to follow", leader.ready)
	if !other.leads() {
		t.Error("the other replica leads no more")
	}
	deleteNow(world.ctx, t, world.namespace, "next")
	world.label(wanted, "late")
	burst.Wait()
	world.waitBound(failoverPods + 1)
	world.history.check(world.ctx, t)
}

// What the policy has learned is not lost with the leader: a replica that follows learns from the pods that the leader
// binds, also from those that have been deleted since.
func killLeaderWithPrices(t *testing.T) {
	const memoryMiB, pods = 7777, 12
	world := newReplicaWorld(t, extenderNodes)
	world.startReplicas(2)
	world.startScheduler()
	leader := world.leader()
	follower := world.other(leader)
	names := make([]string, pods)
	for i := range names {
		names[i] = "learned-" + string(rune('a'+i))
		create(world.ctx, t, world.pod(names[i]).share(30, memoryMiB))
	}
	world.waitBound(pods)
	for _, name := range names {
		world.run(name)
	}
	for _, replica := range world.replicas {
		replica.waitSeen(t, pods)
	}
	deleteNow(world.ctx, t, world.namespace, names...)
	for _, replica := range world.replicas {
		waitFor(t, leaderTakesIn, replica.name+" to have prices", func() (bool, string) {
			return replica.learnedMemory(memoryMiB)
		})
	}
	leader.apiServer.cut() // its next process would know nothing
	leader.kill()
	world.leader(leader)
	if learned, seen := follower.learnedMemory(memoryMiB); !learned {
		t.Errorf("the new leader has no price for the pods of before: %s", seen)
	}
}

// run sets the phase of a pod, as kubelet does.
func (w *ReplicaWorld) run(name string) {
	w.t.Helper()
	_, err := plane.admin.CoreV1().Pods(w.namespace).Patch(w.ctx, name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		w.t.Fatal(err)
	}
}

// inSlot returns a pod for all cards of the nodes whose label has its name.
func (w *ReplicaWorld) inSlot(name string) *PodBuilder {
	pod := w.pod(name).wholeCards(cardsOfEachNode)
	pod.pod.Spec.NodeSelector[slotLabel] = name
	return pod
}
