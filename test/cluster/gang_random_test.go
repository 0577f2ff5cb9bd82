package cluster

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	gangNodes      = 4
	gangsOfWave    = 10
	gangWaves      = 3 // without MGPU_GANGS
	gangMembersMax = 64
	gangRestLimit  = 5 * time.Minute
)

// Election settings with which another replica leads a few seconds after a kill.
var quickElection = []string{"--lease-duration-seconds", "6", "--lease-renew-deadline-seconds", "4", "--lease-retry-seconds", "1"}

// GangWorld has two replicas, and waves of groups that compete for a few nodes beside pods without a group.
type GangWorld struct {
	*ReplicaWorld
	seed   uint64
	random *rand.Rand
	faults map[string]int
}

// newRandomGangWorld reads MGPU_SEED, which repeats groups and faults, though not their times.
func newRandomGangWorld(t *testing.T) *GangWorld {
	t.Helper()
	world := &GangWorld{seed: uint64(time.Now().UnixNano()), faults: map[string]int{}}
	if text := os.Getenv("MGPU_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &world.seed); err != nil {
			t.Fatalf("MGPU_SEED=%q: %v", text, err)
		}
	}
	t.Logf("seed %d", world.seed)
	world.random = rand.New(rand.NewPCG(world.seed, 0))
	world.ReplicaWorld = newReplicaWorld(t, gangNodes)
	for range 2 {
		world.startEndpointReplica(plane.serverURL(), quickElection...)
	}
	world.startScheduler(plane.groupGates())
	world.leader()
	return world
}

// gang returns the members of a group: shares, whole cards, or both.
func (w *GangWorld) gang(name string) []*PodBuilder {
	members := make([]*PodBuilder, min(gangMembersMax, int(math.Exp2(1+5.1*w.random.Float64()))))
	kind, core, cards := w.random.IntN(3), 10+5*w.random.IntN(13), 1+w.random.IntN(2)
	for i := range members {
		members[i] = w.pod(fmt.Sprint(name, "-", i)).inGroup(name)
		if kind == 0 || kind == 1 && i%2 == 0 {
			members[i].wholeCards(cards)
		} else {
			members[i].share(core, core*cardMemoryMiB/100)
		}
	}
	return members
}

// createThrough creates a pod, also where the API server is away for a while.
func (w *GangWorld) createThrough(pod *PodBuilder) {
	err := poll(gangRestLimit, "pod "+pod.pod.Name+" to be created", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(w.namespace).Create(w.ctx, pod.build(), metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	if err != nil {
		w.t.Error(err)
	}
}

// fault kills the replica that leads, the API server, or both, when some pods of a wave are bound.
func (w *GangWorld) fault() {
	kind := []string{"extender", "API server", "both"}[w.random.IntN(3)]
	after, down := 1+w.random.IntN(20), time.Duration(w.random.IntN(2000))*time.Millisecond
	_ = poll(5*time.Second, "binds", func() (bool, string) {
		bound, _ := w.bound()
		return bound >= after, ""
	})
	w.faults[kind]++
	if kind != "API server" {
		w.leader().kill()
	}
	if kind == "extender" {
		return
	}
	plane.apiServer.Kill()
	time.Sleep(down)
	if err := plane.startAPIServer(); err != nil {
		w.t.Fatal(err)
	}
	if err := plane.waitReady(gangRestLimit); err != nil {
		w.t.Fatal(err)
	}
}

// inPart returns how many members of each group are bound, and the groups of which some are and some not. After a
// restart of the API server, kube-scheduler may try no pod for half a minute, which is not the end either.
func (w *GangWorld) inPart(gangs map[string]int) (map[string]int, []string) {
	bound := map[string]int{}
	var parts []string
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		return bound, []string{err.Error()}
	}
	for i := range pods {
		if group := pods[i].Spec.SchedulingGroup; group != nil && pods[i].Spec.NodeName != "" {
			bound[*group.PodGroupName]++
		} else if scheduledCondition(&pods[i]) == notTried {
			parts = append(parts, pods[i].Name+" has not been tried")
		}
	}
	for name, members := range gangs {
		if bound[name] > 0 && bound[name] < members {
			parts = append(parts, fmt.Sprint(bound[name], " of ", members, " members of ", name))
		}
	}
	return bound, parts
}

// rest waits until the groups have been bound whole or not at all for some seconds, in which kube-scheduler tries
// each again, and returns how many members of each are bound.
func (w *GangWorld) rest(gangs map[string]int) (bound map[string]int) {
	w.leader()
	since := time.Now()
	err := pollEvery(burstPollInterval, gangRestLimit, "all groups to be bound whole or not at all", func() (bool, string) {
		now, parts := w.inPart(gangs)
		if len(parts) > 0 || !maps.Equal(now, bound) {
			since = time.Now()
		}
		bound = now
		return time.Since(since) > 5*time.Second, fmt.Sprint(parts)
	})
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	return bound
}

// wave creates groups while a fault happens, and returns how many are bound whole.
func (w *GangWorld) wave(number int) (whole int) {
	gangs, pods := map[string]int{}, []*PodBuilder{}
	for i := range gangsOfWave {
		name := fmt.Sprint("gang-", number, "-", i)
		members := w.gang(name)
		gangs[name] = len(members)
		w.createGroup(w.t, name, len(members), "")
		pods = append(slices.Concat(pods, members), w.pod("single-"+name).share(10+w.random.IntN(60), 1000))
	}
	var creating sync.WaitGroup
	creating.Go(func() { inParallel(pods, w.createThrough) })
	w.fault()
	creating.Wait()
	for _, count := range w.rest(gangs) {
		if count > 0 {
			whole++
		}
	}
	waitFor(w.t, gangRestLimit, "the pods to be gone", func() (bool, string) {
		removePods(w.namespace)
		pods, err := list(w.ctx, w.namespace)
		return err == nil && len(pods) == 0, fmt.Sprint(len(pods), " pods, ", err)
	})
	return whole
}

// Groups of many sizes compete for a few nodes, more than fit. Meanwhile the replica that leads and the API server
// are killed. Their sums fit more often than their cards do. MGPU_GANGS is the number of groups.
func TestRandomGangsAreBoundWholeOrNotAtAll(t *testing.T) {
	groups := gangWaves * gangsOfWave
	if text := os.Getenv("MGPU_GANGS"); text != "" {
		if _, err := fmt.Sscan(text, &groups); err != nil || groups < gangsOfWave {
			t.Fatalf("MGPU_GANGS=%q, want a number from %d", text, gangsOfWave)
		}
	}
	world := newRandomGangWorld(t)
	waves := (groups + gangsOfWave - 1) / gangsOfWave
	whole := 0
	for number := range waves {
		whole += world.wave(number)
		t.Logf("wave %d: %d of %d groups are bound whole; kills: %v", number, whole, (number+1)*gangsOfWave, world.faults)
	}
	if none := waves*gangsOfWave - whole; whole < waves || none < waves {
		t.Errorf("%d groups are bound whole and %d not: the test shows little", whole, none)
	}
	world.history.check(world.ctx, t)
}
