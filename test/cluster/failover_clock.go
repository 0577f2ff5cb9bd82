package cluster

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// MovedClock moves the wall clock of one process, and no other clock. The library of test/clock/moved_clock.cc
// reads the difference from a file at each call.
type MovedClock struct {
	t       testing.TB
	library string
	path    string
}

func newMovedClock(t testing.TB) *MovedClock {
	t.Helper()
	clock := &MovedClock{t: t, library: built(t, "test/clock/libmgpu_moved_clock.so"), path: filepath.Join(t.TempDir(), "clock")}
	clock.move(0)
	return clock
}

func (m *MovedClock) move(difference time.Duration) {
	m.t.Helper()
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(int64(difference/time.Second)))
	file, err := os.OpenFile(m.path, os.O_CREATE|os.O_WRONLY, 0o644) // the processes have mapped it
	if err == nil {
		_, err = file.WriteAt(seconds, 0)
		_ = file.Close()
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// command returns the command line that runs a program with this clock.
func (m *MovedClock) command(program string, arguments []string) (string, []string) {
	// A benchmark measures programs whose clock is the kernel's.
	if os.Getenv("MGPU_FAILOVER_RUNS") != "" {
		return program, arguments
	}
	return "env", append([]string{"LD_PRELOAD=" + m.library, "MGPU_MOVED_CLOCK_FILE=" + m.path, program}, arguments...)
}
