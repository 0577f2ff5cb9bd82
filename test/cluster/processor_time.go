package cluster

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// userTick is the unit of the times in /proc/PID/stat (USER_HZ, which is 100 on all platforms of Linux).
const userTick = 10 * time.Millisecond

// processorTimes has the processor time that each of some processes has used, by the name of the process.
type processorTimes map[string]time.Duration

// processorTimesOf reads the times of processes that run. Other programs on the machine hardly change them, unlike
// the time that passes.
func processorTimesOf(t testing.TB, processes map[string]*Process) processorTimes {
	t.Helper()
	times := processorTimes{}
	for name, process := range processes {
		used, err := process.processorTime()
		if err != nil {
			t.Fatal(err)
		}
		times[name] = used
	}
	return times
}

// processorTime returns the user and the system time of all threads.
func (p *Process) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, the second field, ends with the last parenthesis, and can contain spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.command.Process.Pid, len(fields))
	}
	var sum time.Duration
	for _, at := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * userTick
	}
	return sum, nil
}

// usedTimes has the milliseconds of processor time that each process used for a pod, one for each measurement.
type usedTimes map[string][]float64

func (u usedTimes) add(before, after processorTimes, pods int) {
	for name, now := range after {
		u[name] = append(u[name], (now-before[name]).Seconds()*1000/float64(pods))
	}
}

// over returns a function that is called with the number of pods that are bound, and adds the times of the middle 80 %
// of `count` pods.
func (u usedTimes) over(t testing.TB, processes map[string]*Process, count int) func(bound int) {
	first, last := middleOf(count)
	var before processorTimes
	return func(bound int) {
		switch bound - 1 {
		case first:
			before = processorTimesOf(t, processes)
		case last:
			u.add(before, processorTimesOf(t, processes), last-first)
		}
	}
}

// String returns the medians.
func (u usedTimes) String() string { return u.text(median) }

// last returns the times of the last measurement.
func (u usedTimes) last() string {
	return u.text(func(values []float64) float64 { return values[len(values)-1] })
}

func (u usedTimes) text(of func(values []float64) float64) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(u)) {
		texts = append(texts, fmt.Sprintf("%s %.2f", name, of(u[name])))
	}
	return strings.Join(texts, ", ")
}
