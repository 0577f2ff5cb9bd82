package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

type gang struct {
	name    string
	members int
	core    int
}

// settled waits until no pod has been bound for some seconds, in which kube-scheduler tries each group again.
func (w *World) settled(t *testing.T) map[string]bool {
	t.Helper()
	bound, since := map[string]bool{}, time.Now()
	waitFor(t, 3*time.Minute, "no more pods to be bound", func() (bool, string) {
		pods, err := list(w.ctx, w.namespace)
		if err != nil {
			return false, err.Error()
		}
		before := len(bound)
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				bound[pods[i].Name] = true
			}
		}
		if len(bound) != before {
			since = time.Now()
		}
		return time.Since(since) > 5*time.Second, fmt.Sprint(len(bound), " are bound")
	})
	return bound
}

// Groups of many sizes compete for two nodes, more than fit, beside pods without a group. Their sums fit more
// often than their cards do. MGPU_SEED repeats a run.
func TestRandomGangsAreBoundWholeOrNotAtAll(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MGPU_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("MGPU_SEED=%q: %v", text, err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	world := newGangWorld(t)
	plane.createNodes(world.ctx, t, "more-", 2)
	world.extender.waitNodes(t, 3)
	whole, none := 0, 0
	for round := range 8 {
		var gangs []gang
		for i := range 6 {
			one := gang{fmt.Sprint("gang-", round, "-", i), 2 + random.IntN(7), []int{25, 30, 45, 60, 70, 100}[random.IntN(6)]}
			world.createGang(t, one.name, one.members, one.core)
			gangs = append(gangs, one)
			create(world.ctx, t, world.pod(fmt.Sprint("single-", round, "-", i)).share(10+random.IntN(60), 1000))
		}
		bound := world.settled(t)
		var names []string
		for _, one := range gangs {
			count := 0
			for i := range one.members {
				name := fmt.Sprint(one.name, "-", i)
				names = append(names, name)
				if bound[name] {
					count++
				}
			}
			switch count {
			case 0:
				none++
			case one.members:
				whole++
			default:
				t.Errorf("seed %d: %d of %d members of %s with %d %% each are bound", seed, count, one.members, one.name, one.core)
			}
		}
		for i := range gangs {
			names = append(names, fmt.Sprint("single-", round, "-", i))
		}
		deleteNow(world.ctx, t, world.namespace, names...)
	}
	t.Logf("seed %d: %d groups are bound whole, %d not at all", seed, whole, none)
	if whole < 8 || none < 4 {
		t.Errorf("seed %d: %d groups are bound whole and %d not at all: the test shows little", seed, whole, none)
	}
	world.history.check(world.ctx, t)
}
