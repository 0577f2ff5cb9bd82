package cluster

import (
	"fmt"
	"math/rand"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Fault is a kill of a process, and how long the process is down.
type Fault struct {
	at      time.Duration // since the start of the soak
	process string
	down    time.Duration
}

const (
	extenderProcess  = "mgpu-extender"
	schedulerProcess = "kube-scheduler"
	apiServerProcess = "kube-apiserver"
	downMax          = 3 * time.Second
)

// planFaults draws the times of the kills. mgpu-extender is killed in the first half only, so that its
// memory can be compared within one long life. Nothing is killed in the last twentieth.
func planFaults(random *rand.Rand, length time.Duration) []Fault {
	minutes := length.Minutes()
	var faults []Fault
	for _, kind := range []struct {
		process string
		count   int
		beyond  float64
	}{
		{extenderProcess, max(3, int(minutes*0.8)), 0.5},
		{schedulerProcess, max(2, int(minutes*0.7)), 0.95},
		{apiServerProcess, max(2, int(minutes*0.4)), 0.95},
	} {
		for range kind.count {
			share := 0.05 + random.Float64()*(kind.beyond-0.05)
			faults = append(faults, Fault{time.Duration(share * float64(length)), kind.process,
				time.Duration(random.Int63n(int64(downMax)))})
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.at - b.at) })
	return faults
}

// SoakProcess is a process that is killed and started again.
type SoakProcess struct {
	name      string
	process   func() *Process
	start     func(t testing.TB)
	startAt   time.Time // when it starts again; zero while it runs
	kills     int
	ownEnds   int
	mayEnd    bool // a process that ends by itself is started again, as kubelet would
	beforeEnd func()
}

func (s *Soak) processes(t testing.TB, command SchedulerCommand) map[string]*SoakProcess {
	scheduler, err := command.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scheduler.Kill() })
	return map[string]*SoakProcess{
		extenderProcess: {name: extenderProcess, process: func() *Process { return s.extender.process },
			start:     func(t testing.TB) { s.startLife(t) },
			beforeEnd: func() { s.endLife() }},
		schedulerProcess: {name: schedulerProcess, process: func() *Process { return scheduler }, mayEnd: true,
			start: func(t testing.TB) {
				if scheduler, err = command.start(); err != nil {
					t.Fatal(err)
				}
			}},
		apiServerProcess: {name: apiServerProcess, process: func() *Process { return plane.apiServer }, mayEnd: true,
			start: func(t testing.TB) {
				if err := plane.startAPIServer(); err != nil {
					t.Fatal(err)
				}
			}},
	}
}

// kill sends SIGKILL. A process that is down already is left alone.
func (p *SoakProcess) kill(down time.Duration) {
	if !p.startAt.IsZero() {
		return
	}
	if p.beforeEnd != nil {
		p.beforeEnd()
	}
	p.process().Kill()
	p.kills++
	p.startAt = time.Now().Add(down)
}

// tend starts the process again when it is time.
func (p *SoakProcess) tend(t testing.TB) {
	t.Helper()
	if p.startAt.IsZero() && !p.process().running() {
		if !p.mayEnd {
			t.Fatalf("%s ended by itself:\n%s", p.name, p.process().logTail(20))
		}
		p.ownEnds++
		p.startAt = time.Now().Add(time.Second)
	}
	if !p.startAt.IsZero() && time.Now().After(p.startAt) {
		p.start(t)
		p.startAt = time.Time{}
	}
}

// startLife starts the next process of the extender.
func (s *Soak) startLife(t testing.TB) {
	t.Helper()
	s.extender.start(t)
	s.lives = append(s.lives, Life{began: time.Now()})
}

// endLife reads the counters of the extender before it is killed.
func (s *Soak) endLife() {
	client := http.Client{Timeout: 2 * time.Second}
	status, text, err := read(client.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.extender.metricsPort)))
	if err != nil || status != http.StatusOK {
		s.counts.add("lives of the extender whose counters could not be read")
		return
	}
	for sample, value := range readMetrics(text) {
		if strings.Contains(sample, "_total") || strings.Contains(sample, "_count") {
			s.counters[sample] += value
		}
	}
}
