package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Replica is one of several extenders. When its process ends it is started again, as kubelet does it.
type Replica struct {
	t            testing.TB
	name         string
	extender     *Extender
	advertised   string // its address in the EndpointSlice; empty: none
	apiServer    *Gate  // between it and the API server
	scheduler    *Gate  // between kube-scheduler and it
	clock        *MovedClock
	probes       http.Client
	mutex        sync.Mutex
	process      *Process
	killed       bool // the end of the process is expected
	ending       bool // it is not started again
	lives        int
	endedLeading int // lives that ended because another process held the Lease, or because it was not renewed
	group        sync.WaitGroup
}

// A container that has ended is started again after this time.
const replicaRestart = time.Second

// leaseLost is in the log of a process that ends because of the Lease.
const leaseLost = "no longer holds the lease"

// newReplica returns an extender that reaches the API server of this URL through a gate. It has not been started.
func (c *ControlPlane) newReplica(t testing.TB, name, server string, flags ...string) *Replica {
	t.Helper()
	replica := &Replica{t: t, name: name, apiServer: newGate(), scheduler: newGate(), clock: newMovedClock(t),
		probes: http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	scheme, address, _ := strings.Cut(server, "://")
	link := startLink(t, func() (string, *Gate) { return address, replica.apiServer })
	replica.extender = c.extenderOn(t, "http", http.DefaultClient, flags...)
	replica.extender.follow(c.kubeconfigOf(filepath.Join(t.TempDir(), name+".kubeconfig"),
		scheme+"://"+link.address(), extenderToken))
	return replica
}

// run starts the replica until the end of the test.
func (r *Replica) run() {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
	r.group.Go(r.supervise)
	r.t.Cleanup(r.end)
}

func (r *Replica) start() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.ending {
		return nil
	}
	command, arguments := r.clock.command(extenderBinary(r.t), r.extender.arguments)
	process, err := startProcess(r.name, r.extender.logPath, command, arguments...)
	if err != nil {
		return err
	}
	r.process, r.killed = process, false
	r.lives++
	return nil
}

func (r *Replica) supervise() {
	for {
		process := r.current()
		<-process.ended
		if !r.note(process) {
			return
		}
		time.Sleep(replicaRestart)
		if err := r.start(); err != nil {
			r.t.Error(err)
			return
		}
		if r.current() == process {
			return
		}
	}
}

// note checks how the process has ended. It returns whether another is to be started.
func (r *Replica) note(process *Process) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	code := process.command.ProcessState.ExitCode()
	lost := strings.Contains(process.logTail(20), leaseLost)
	if lost && code == 1 {
		r.endedLeading++
	} else if !r.killed {
		r.t.Errorf("%s ended with code %d:\n%s", r.name, code, process.logTail(20))
	}
	return !r.ending
}

func (r *Replica) current() *Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.process
}

// kill sends SIGKILL, and waits for the end. Another process is started after replicaRestart.
func (r *Replica) kill() {
	r.mutex.Lock()
	r.killed = true
	process := r.process
	r.mutex.Unlock()
	process.Kill()
}

// terminate sends SIGTERM, and does not wait for the end.
func (r *Replica) terminate() *Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.killed = true
	_ = r.process.command.Process.Signal(syscall.SIGTERM)
	return r.process
}

// endBecauseOfLease cuts the API server off until the process has ended. The next process reaches it.
func (r *Replica) endBecauseOfLease() {
	process := r.current()
	r.apiServer.cut()
	<-process.ended
	r.apiServer.mend()
}

// cutOff cuts off the API server and kube-scheduler, as when the machine is lost.
func (r *Replica) cutOff() {
	r.apiServer.cut()
	r.scheduler.cut()
}

func (r *Replica) mend() {
	r.apiServer.mend()
	r.scheduler.mend()
}

func (r *Replica) signal(signal os.Signal) {
	if err := r.current().command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
}

// end stops the replica with SIGTERM and checks its exit code and its log.
func (r *Replica) end() {
	r.mend()
	r.mutex.Lock()
	r.ending = true
	process := r.process
	// A program that has just been started receives no signals yet: SIGTERM kills it.
	expected := r.killed || !process.logs("using API server")
	r.killed = true
	r.mutex.Unlock()
	_ = process.command.Process.Signal(syscall.SIGCONT)
	code, ended := process.Terminate(endsIn)
	if !ended || (code != 0 && !expected && !strings.Contains(process.logTail(20), leaseLost)) {
		r.t.Errorf("%s ended with code %d after SIGTERM (in time: %v)", r.name, code, ended)
	}
	process.Kill()
	r.apiServer.close()
	r.scheduler.close()
	r.group.Wait()
	r.checkLog()
}

func (r *Replica) checkLog() {
	text, err := os.ReadFile(r.extender.logPath)
	if err != nil {
		r.t.Error(err)
	}
	for _, report := range []string{"Sanitizer:", "runtime error:"} {
		if at := strings.Index(string(text), report); at >= 0 {
			r.t.Errorf("%s:\n%s", r.name, text[at:min(len(text), at+4000)])
		}
	}
	if !r.t.Failed() {
		return
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(text), "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, "pod bound") || strings.Contains(line, "pending pods touched")
	})
	r.t.Logf("last lines of %s:\n%s", r.name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

// probe reads a path of probes, metrics and inspection.
func (r *Replica) probe(path string) (int, string, error) {
	return read(r.probes.Get(fmt.Sprintf("http://127.0.0.1:%d%s", r.extender.metricsPort, path)))
}

// leads returns whether the replica decides now.
func (r *Replica) leads() bool {
	_, text, err := r.probe("/metrics")
	return err == nil && readMetrics(text).with("mgpu_extender_leader") == 1
}

// ready returns whether the replica decides, or follows the leader.
func (r *Replica) ready() (bool, string) {
	status, body, err := r.probe("/readyz")
	return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
}
