package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An API server is stopped with a bind of the leader in its receive buffer. Another replica takes over at another API
// server, and gives the cards to another pod. Then the first API server reads the bind. kube-scheduler is stopped
// meanwhile, because it would write the status of the pod, so that the bind would be refused anyway.
func stopAPIServerWithABind(t *testing.T) {
	world := newReplicaWorld(t, extenderNodes+1)
	server := plane.startStoppedServer(t, "late")
	leader := world.startEndpointReplica(server.url)
	world.leader()
	world.startEndpointReplica(plane.serverURL())
	scheduler := world.startScheduler("")
	server.onStop = func() { world.signal(scheduler, syscall.SIGSTOP) }
	wanted := world.nodes[extenderNodes]
	world.label(wanted, "late")
	world.burst(0, failoverPods/4)
	create(world.ctx, t, world.inSlot("late"))
	waitFor(t, failoverLimit, "the API server to hold a bind", func() (bool, string) { return server.holds(), "" })
	var burst sync.WaitGroup
	burst.Go(func() { world.burst(failoverPods/4, failoverPods) })
	defer burst.Wait()
	world.label(wanted, "next")
	next := create(world.ctx, t, world.inSlot("next"))
	world.leader(leader).bind(t, next, wanted)
	if status, body := server.resume(t); status != http.StatusConflict {
		t.Errorf("the late bind: %d %.300s, want 409", status, body)
	}
	if node := get(world.ctx, t, world.namespace, "late").Spec.NodeName; node != "" {
		t.Errorf("the pod late is on %s after its bind was refused", node)
	}
	world.signal(scheduler, syscall.SIGCONT)
	waitFor(t, leaderTakesIn, "the old leader to follow", leader.ready)
	deleteNow(world.ctx, t, world.namespace, "next")
	world.label(wanted, "late")
	burst.Wait()
	world.waitBound(failoverPods + 1)
	world.history.check(world.ctx, t)
}

func (w *ReplicaWorld) signal(process *Process, signal os.Signal) {
	if err := process.command.Process.Signal(signal); err != nil {
		w.t.Error(err)
	}
}

// bind calls the verb bind until the pod is bound, as kube-scheduler does. The extender may not know the node at once.
func (r *Replica) bind(t testing.TB, pod *corev1.Pod, node string) {
	t.Helper()
	body := fmt.Sprintf(`{"PodName":%q,"PodNamespace":%q,"PodUID":%q,"Node":%q}`, pod.Name, pod.Namespace, pod.UID, node)
	waitFor(t, time.Minute, "pod "+pod.Name+" to be bound", func() (bool, string) {
		status, answer, err := r.extender.post("/mgpu/bind", strings.NewReader(body))
		return err == nil && strings.Contains(answer, `"Error":""`), fmt.Sprint(status, " ", answer, " ", err)
	})
}

// What the policy has learned is not lost with the leader: a replica that follows learns from the pods that the leader
// binds, also from those that have been deleted since.
func killLeaderWithPrices(t *testing.T) {
	const memoryMiB, pods = 7777, 12
	world := newReplicaWorld(t, extenderNodes)
	world.startReplicas(2)
	world.startScheduler("")
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
