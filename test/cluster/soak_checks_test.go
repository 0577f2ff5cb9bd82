package cluster

import (
	"encoding/json"
	"math/rand"
	"slices"
	"strings"
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

func TestASoakFindsGrowth(t *testing.T) {
	before := Sample{rss: 30, descriptors: 40, threads: 8, created: 1000}
	for name, one := range map[string]struct {
		grow func(sample *Sample)
		want string
	}{
		"nothing":      {func(*Sample) {}, ""},
		"pods":         {func(sample *Sample) { sample.created += 10_000 }, ""},
		"some memory":  {func(sample *Sample) { sample.rss += growthMiB - 1 }, ""},
		"memory":       {func(sample *Sample) { sample.rss += growthMiB + 1 }, "the memory grew"},
		"less":         {func(sample *Sample) { sample.rss -= 10 }, ""},
		"open files":   {func(sample *Sample) { sample.descriptors += descriptorsGrowth + 1 }, "the open file"},
		"some threads": {func(sample *Sample) { sample.threads += 2 }, "the threads grew"},
	} {
		after := before
		one.grow(&after)
		grown := strings.Join(growth(before, after), "; ")
		if !strings.HasPrefix(grown, one.want) || (one.want == "") != (grown == "") {
			t.Errorf("%s: %q, want %q", name, grown, one.want)
		}
	}
}

// Samples before the end of the warm-up, and the middle third, do not count.
func TestASoakComparesTheFirstWithTheLastThird(t *testing.T) {
	life := Life{}
	for i := range 10 {
		life.samples = append(life.samples, Sample{age: warmUp + time.Duration(i-1)*time.Second, rss: float64(i)})
	}
	first, last, err := life.thirds()
	if err != nil || first.rss != 2 || last.rss != 8 {
		t.Errorf("%v %v %v, want the means 2 and 8", first.rss, last.rss, err)
	}
	life.samples = life.samples[:3]
	if _, _, err := life.thirds(); err == nil {
		t.Error("two samples have no thirds")
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

func TestASoakComparesPodsWithTheLedger(t *testing.T) {
	var inspected InspectedPod
	text := `{"phase": "bound", "holds": [{"card": 1, "core": 30, "memoryMiB": 2000}]}`
	if err := json.Unmarshal([]byte(text), &inspected); err != nil {
		t.Fatal(err)
	}
	held := HeldPod{node: "node", holding: Holding{1: {30, 2000}}}
	other := HeldPod{node: "node", holding: Holding{2: {30, 2000}}}
	assumed := inspected
	assumed.Phase = "assumed"
	for name, one := range map[string]struct {
		pod  InspectedPod
		want HeldPod
		some bool
		node string
		why  string
	}{
		"equal":       {inspected, held, true, "node", ""},
		"leaked":      {inspected, HeldPod{}, false, "node", "holds no cards"},
		"assumed":     {assumed, held, true, "node", "phase"},
		"other node":  {inspected, held, true, "other", "bound to node"},
		"other cards": {inspected, other, true, "node", "the pod holds"},
	} {
		why := one.pod.differs(one.want, one.some, one.node)
		if (why == "") != (one.why == "") || !strings.Contains(why, one.why) {
			t.Errorf("%s: %q, want %q", name, why, one.why)
		}
	}
}

func TestASoakFindsClaimsThatAreLeft(t *testing.T) {
	metrics := func() Metrics {
		return readMetrics(`mgpu_extender_claims{phase="assumed"} 0
mgpu_extender_claims{phase="bound"} 0
mgpu_extender_expected_placements 0
mgpu_extender_nominated_pods 0
mgpu_extender_drifting_pods 0
mgpu_extender_overfull_cards 0
mgpu_extender_binds_in_flight 0
`)
	}
	if left := leftInMetrics(metrics()); left != "" {
		t.Error(left)
	}
	for gauge := range metrics() {
		some, missing := metrics(), metrics()
		some[gauge] = 1
		delete(missing, gauge)
		for _, one := range []Metrics{some, missing} {
			if left := leftInMetrics(one); !strings.HasPrefix(left, gauge) {
				t.Errorf("%q, want %s", left, gauge)
			}
		}
	}
}
