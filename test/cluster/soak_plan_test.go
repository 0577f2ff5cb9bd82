package cluster

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

func TestThePlanOfASoakDependsOnTheSeedOnly(t *testing.T) {
	planOf := func(seed int64) []Fault { return planFaults(rand.New(rand.NewSource(seed)), 30*time.Minute) }
	if !slices.Equal(planOf(1), planOf(1)) || slices.Equal(planOf(1), planOf(2)) {
		t.Error("want equal plans for equal seeds, and other plans for other seeds")
	}
}

// The memory of the extender is compared within its last life, which must be long.
func TestASoakKillsTheExtenderInTheFirstHalfOnly(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, 2 * time.Minute, 30 * time.Minute} {
		kills := map[string]int{}
		for _, fault := range planFaults(rand.New(rand.NewSource(1)), length) {
			kills[fault.process]++
			if fault.at > length*95/100 || (fault.process == extenderProcess && fault.at > length/2) {
				t.Errorf("%v: %s is killed after %v", length, fault.process, fault.at)
			}
		}
		for _, process := range []string{extenderProcess, schedulerProcess, apiServerProcess} {
			if kills[process] < 2 {
				t.Errorf("%v: %s is killed %d times", length, process, kills[process])
			}
		}
	}
}

func TestASoakChecksWhetherAPodFitsOnlyIfItsRequestIsSound(t *testing.T) {
	share := func() *PodBuilder { return newPod("n", "p").share(100, 20000) }
	for name, one := range map[string]struct {
		pod  *PodBuilder
		want bool
	}{
		"a share":             {share(), true},
		"two cards":           {share().annotation(multipleGPUKey, "2"), true},
		"not divisible":       {share().annotation(multipleGPUKey, "3"), false},
		"too many numbers":    {share().annotation(multipleGPUKey, "2,2"), false},
		"no number":           {share().annotation(multipleGPUKey, "x"), false},
		"no cards requested":  {newPod("n", "p").container("c0", "", "").annotation(multipleGPUKey, "1"), false},
		"only some models":    {share().annotation(modelKey, "A100"), false},
		"an unknown policy":   {share().annotation(policyKey, unknownPolicy), false},
		"an absurd request":   {newPod("n", absurdPrefix+"1").share(10, 1024), false},
		"another good policy": {share().annotation(policyKey, "spread"), true},
	} {
		if got := isSound(one.pod.build()); got != one.want {
			t.Errorf("%s: %v, want %v", name, got, one.want)
		}
	}
}
