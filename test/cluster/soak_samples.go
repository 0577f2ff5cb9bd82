package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Life is one process of the extender, with samples of its resources.
type Life struct {
	began   time.Time
	samples []Sample
}

// Sample has the resources of the extender at one time, and the pods then.
type Sample struct {
	age         time.Duration
	rss         float64 // MiB
	descriptors float64
	threads     float64
	created     float64 // pods since the start of the soak
}

const (
	sampleInterval = 5 * time.Second
	// After the start, lists of nodes and pods are read and caches are filled.
	warmUp = 30 * time.Second
	// The growth of the resident memory, from the first to the last third of a life, that is not a leak:
	// pages that the allocator does not return, and for each pod the entry of the window from which the
	// policy learns, whose size is limited by extender/learning/limits.h.
	growthMiB       = 4.0
	growthMiBPerPod = 1.0 / 2048
	// Connections of kube-scheduler and to the API server come and go.
	descriptorsGrowth = 32
)

// sample reads /proc. The process may be down.
func (s *Soak) sample() {
	if len(s.lives) == 0 || !s.extender.process.running() {
		return
	}
	life := &s.lives[len(s.lives)-1]
	folder := fmt.Sprint("/proc/", s.extender.process.command.Process.Pid)
	status, err := os.ReadFile(folder + "/status")
	if err != nil {
		return
	}
	descriptors, err := os.ReadDir(folder + "/fd")
	if err != nil {
		return
	}
	_, _, totals := s.pods.counts()
	life.samples = append(life.samples, Sample{age: time.Since(life.began), rss: statusNumber(status, "VmRSS:") / 1024,
		threads: statusNumber(status, "Threads:"), descriptors: float64(len(descriptors)), created: float64(totals.created)})
}

// statusNumber returns a number of /proc/PID/status.
func statusNumber(status []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(status), name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	number, _ := strconv.ParseFloat(fields[0], 64)
	return number
}

// mean returns the mean of samples.
func mean(samples []Sample) Sample {
	sum := Sample{}
	for _, one := range samples {
		sum.rss += one.rss
		sum.descriptors += one.descriptors
		sum.threads += one.threads
		sum.created += one.created
	}
	count := float64(len(samples))
	return Sample{rss: sum.rss / count, descriptors: sum.descriptors / count, threads: sum.threads / count,
		created: sum.created / count}
}

// thirds returns the means of the first and of the last third of a life, after it has warmed up.
func (l *Life) thirds() (first, last Sample, err error) {
	samples := l.samples
	for len(samples) > 0 && samples[0].age < warmUp {
		samples = samples[1:]
	}
	third := len(samples) / 3
	if third == 0 {
		return first, last, fmt.Errorf("mgpu-extender has %d samples after %v of its last life, want 3 or more",
			len(samples), warmUp)
	}
	return mean(samples[:third]), mean(samples[len(samples)-third:]), nil
}

// growth returns what has grown too much between two times.
func growth(first, last Sample) []string {
	var grown []string
	pods := last.created - first.created
	if allowed := growthMiB + growthMiBPerPod*pods; last.rss-first.rss > allowed {
		grown = append(grown, fmt.Sprintf("the memory grew by %.1f MiB while %.0f pods were created, want at most %.1f MiB",
			last.rss-first.rss, pods, allowed))
	}
	if last.descriptors-first.descriptors > descriptorsGrowth {
		grown = append(grown, fmt.Sprintf("the open file descriptors grew from %.1f to %.1f, want at most %d more",
			first.descriptors, last.descriptors, descriptorsGrowth))
	}
	if last.threads > first.threads+1 {
		grown = append(grown, fmt.Sprintf("the threads grew from %.1f to %.1f", first.threads, last.threads))
	}
	return grown
}

// checkFlat compares the first with the last third of the last life, in which nothing has killed the
// extender. All its samples are of one process.
func (s *Soak) checkFlat(t testing.TB) {
	t.Helper()
	life := &s.lives[len(s.lives)-1]
	first, last, err := life.thirds()
	if err != nil {
		t.Error(err)
		return
	}
	t.Logf("last life of mgpu-extender, %.0f s: means of thirds", life.samples[len(life.samples)-1].age.Seconds())
	t.Logf("%-18s %8s %8s", "", "first", "last")
	t.Logf("%-18s %8.1f %8.1f", "RSS, MiB", first.rss, last.rss)
	t.Logf("%-18s %8.1f %8.1f", "file descriptors", first.descriptors, last.descriptors)
	t.Logf("%-18s %8.1f %8.1f", "threads", first.threads, last.threads)
	t.Logf("%-18s %8.0f %8.0f", "pods created", first.created, last.created)
	for _, grown := range growth(first, last) {
		t.Error(grown)
	}
}

// reportLives prints the resources of each life at its beginning and end.
func (s *Soak) reportLives(t testing.TB) {
	t.Helper()
	t.Logf("%4s %8s %12s %12s %12s %10s", "life", "age, s", "first RSS", "last RSS", "descriptors", "threads")
	for i, life := range s.lives {
		if count := len(life.samples); count > 0 {
			first, last := life.samples[0], life.samples[count-1]
			t.Logf("%4d %8.0f %8.1f MiB %8.1f MiB %12.0f %10.0f", i+1, last.age.Seconds(), first.rss, last.rss,
				last.descriptors, last.threads)
		}
	}
}

// progress prints a line of the table, one a minute.
func (s *Soak) progress(t testing.TB, minute int) {
	t.Helper()
	present, pending, totals := s.pods.counts()
	life := &s.lives[len(s.lives)-1]
	now := Sample{}
	if len(life.samples) > 0 {
		now = life.samples[len(life.samples)-1]
	}
	t.Logf("%6d %8d %8d %8d %8d %8d %7.0f %5d %6.0f %9.1f %6.0f %8.0f", minute, totals.created, totals.bound,
		totals.removed, present, pending, s.pods.allocated(len(s.nodes)), len(s.lives), now.age.Seconds(), now.rss,
		now.descriptors, now.threads)
}

func (s *Soak) progressHead(t testing.TB) {
	t.Logf("%6s %8s %8s %8s %8s %8s %7s %5s %6s %9s %6s %8s", "minute", "created", "bound", "removed", "present",
		"pending", "used, %", "life", "age, s", "RSS, MiB", "files", "threads")
}
