package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that the tests have started. The kernel kills it when the test process ends for
// any reason.
type Process struct {
	name    string
	logPath string
	logFrom int64 // where the output of this process begins
	command *exec.Cmd
	ended   chan struct{}
}

// The parent-death signal of a child depends on the thread that forked it. Therefore one thread, which
// never ends, starts all processes.
var forks = func() chan func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for fork := range queue {
			fork()
		}
	}()
	return queue
}()

// startProcess starts a program and appends its output to logPath.
func startProcess(name, logPath, binary string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return nil, err
	}
	command := exec.Command(binary, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	forks <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	process := &Process{name: name, logPath: logPath, logFrom: before.Size(), command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(process.ended)
	}()
	return process, nil
}

// Kill sends SIGKILL and waits until the process has ended. The process may have ended before.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// startsIn is how long a program may take to be ready. Who waits stops earlier if it ends.
const startsIn = 5 * time.Minute

// endsIn is how long a program may take to end after SIGTERM. The programs allow themselves 25 s.
const endsIn = time.Minute

// Terminate sends SIGTERM and reports whether the process ended within the timeout, and how.
func (p *Process) Terminate(timeout time.Duration) (exitCode int, ended bool) {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode(), true
	case <-time.After(timeout):
		return 0, false
	}
}

func (p *Process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// logs returns whether the program has written this text to its log.
func (p *Process) logs(text string) bool {
	all, err := os.ReadFile(p.logPath)
	return err == nil && strings.Contains(string(all[min(p.logFrom, int64(len(all))):]), text)
}

// logTail returns the last lines of the program's log.
func (p *Process) logTail(lines int) string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// endWithTest kills the process at the end of the test, and prints its log if the test failed.
func (p *Process) endWithTest(t testing.TB) {
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s (%s):\n%s", p.name, p.logPath, p.logTail(25))
		}
	})
}

var portsGiven sync.Map

// freePort returns a loopback port that is not in use. It is below the ports of outgoing connections, so
// that none of them can take the port before the process does.
func freePort() (int, error) {
	const first, beyond, attempts = 12_000, 32_000, 100
	var err error
	for range attempts {
		port := first + rand.IntN(beyond-first)
		// The process for which it was returned may not listen yet.
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, err
}

// memory is the resident memory now and at its highest, as the kernel says it.
func (p *Process) memory() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") || strings.HasPrefix(line, "VmRSS:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", ")
}
