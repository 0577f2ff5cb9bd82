package cluster

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hangLeader stops the thread of the leader that has watches, binds and timers. The thread that renews the Lease runs
// on, as do those of HTTP.
func hangLeader(w *ReplicaWorld) {
	leader := w.leader()
	old := leader.current()
	hung := make(chan error)
	go hangWork(leader, old, hung)
	if err := <-hung; err != nil {
		w.t.Fatal(err)
	}
	w.leader(leader)
	waitEnded(w.t, old)
	w.checkReplaced(leader)
}

// hangWork stops the thread without which /livez fails until the process ends. It sends to hung once.
func hangWork(replica *Replica, process *Process, hung chan<- error) {
	// A thread that ptrace(2) has stopped goes on when the thread that called it ends.
	runtime.LockOSThread()
	thread, err := stopWork(replica, process)
	hung <- err
	// Nobody else learns that the process has ended before this.
	_, _ = syscall.Wait4(thread, nil, syscall.WALL, nil)
}

func stopWork(replica *Replica, process *Process) (int, error) {
	threads, err := threadsByWakeUps(process.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		if err := syscall.PtraceAttach(thread); err != nil {
			return 0, err
		}
		if _, err := syscall.Wait4(thread, nil, syscall.WALL, nil); err != nil {
			return 0, err
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if status, _, err := replica.probe("/livez"); err == nil && status == http.StatusInternalServerError {
				return thread, nil
			}
		}
		if err := syscall.PtraceDetach(thread); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("/livez did not fail without any of the threads %v", threads)
}

// threadsByWakeUps returns the threads of the process, those first that have waited and gone on most often.
func threadsByWakeUps(process int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", process))
	if err != nil {
		return nil, err
	}
	wakeUps := map[int]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		number, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
		thread, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if wakeUps[thread], err = strconv.Atoi(number); err != nil {
			return nil, err
		}
	}
	threads := make([]int, 0, len(wakeUps))
	for thread := range wakeUps {
		threads = append(threads, thread)
	}
	slices.SortFunc(threads, func(a, b int) int { return cmp.Compare(wakeUps[b], wakeUps[a]) })
	return threads, nil
}

// Standard error of the extender is a pipe that nobody reads, as that of a container whose runtime is stopped.
func TestAnExtenderWhoseLogNobodyReadsGoesOn(t *testing.T) {
	extender := plane.extenderOn(t, "http", http.DefaultClient, "--leader-elect")
	if err := syscall.Mkfifo(extender.logPath, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(extender.logPath, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	extender.start(t)
	extender.process.logPath = os.DevNull
	// A replica that follows is ready, too, and the Lease of an earlier test may not have expired.
	waitFor(t, 60*time.Second, "mgpu-extender to lead", func() (bool, string) {
		status, text, err := extender.get("/metrics")
		return err == nil && readMetrics(text).with("mgpu_extender_leader") == 1, fmt.Sprint(status, " ", err)
	})
	// The pipe has 64 KiB, and 1,024 lines wait. Each bind that fails is a line of 300 bytes.
	for i := range 1500 {
		body := fmt.Sprintf(`{"PodName":"no-such-pod-%0150d","PodNamespace":"default","PodUID":"u%d","Node":"gpu-00"}`, i, i)
		status, answer, err := read(http.Post(extender.url()+"/bind", "application/json", strings.NewReader(body)))
		if err != nil || status != http.StatusOK {
			t.Fatalf("bind %d: %d %s %v", i, status, answer, err)
		}
	}
	if status, _, err := extender.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez: %d %v", status, err)
	}
	if dropped := extender.metrics(t).with("mgpu_extender_log_lines_dropped_total"); dropped == 0 {
		t.Error("no log line was dropped, although nobody reads them")
	}
}
