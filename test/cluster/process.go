package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is one program that the tests started; it is ended by its own pid. The kernel kills it when
// the test process dies, whatever the way.
type Process struct {
	name    string
	logPath string
	command *exec.Cmd
	ended   chan struct{}
}

// A child's parent-death signal is bound to the thread that forked it, so that one thread that never
// ends forks them all.
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

// startProcess appends the program's output to logPath.
func startProcess(name, logPath, binary string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(binary, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	forks <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	process := &Process{name: name, logPath: logPath, command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(process.ended)
	}()
	return process, nil
}

// Kill sends SIGKILL and returns when the process is gone. Harmless when it has ended.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

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

// logTail is the end of the program's log, for the message of a failed test.
func (p *Process) logTail(lines int) string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// endWithTest kills the process at the end of the test, and shows its log if the test failed.
func (p *Process) endWithTest(t testing.TB) {
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last lines of %s (%s):\n%s", p.name, p.logPath, p.logTail(25))
		}
	})
}

// freePort is a loopback port that nobody listened on a moment ago. It is below those that the kernel
// gives to outgoing connections, which could take it before the process that it is meant for.
func freePort() (int, error) {
	const first, beyond, attempts = 12_000, 32_000, 100
	var err error
	for range attempts {
		port := first + rand.IntN(beyond-first)
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
