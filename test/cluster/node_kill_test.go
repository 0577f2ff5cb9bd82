package cluster

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// heldWriting is a process that the kernel holds when it opens a file, until release or its end.
type heldWriting struct {
	held   chan struct{} // closed when a process is held
	events *os.File
}

// holdWriting holds who opens the next temporary file of mgpu-device-plugin in the folder, but for the first
// `passes` files. The plugin writes a temporary file and renames it.
func holdWriting(t testing.TB, folder string, passes int) *heldWriting {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "fanotify")
	t.Cleanup(func() { _ = events.Close() })
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, folder); err != nil {
		t.Fatal(err)
	}
	hold := &heldWriting{held: make(chan struct{}), events: events}
	go hold.answer(passes)
	return hold
}

// answer lets every process go on but the one that is to be held.
func (h *heldWriting) answer(passes int) {
	buffer := make([]byte, 4096)
	for {
		size, err := h.events.Read(buffer)
		if err != nil {
			return
		}
		for at := 0; at < size; {
			event := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&buffer[at]))
			at += int(event.Event_len)
			path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", event.Fd))
			if filepath.Ext(path) == ".part" {
				if passes--; passes == -1 {
					close(h.held)
					continue
				}
			}
			_ = binary.Write(h.events, binary.NativeEndian, unix.FanotifyResponse{Fd: event.Fd, Response: unix.FAN_ALLOW})
			_ = unix.Close(int(event.Fd))
		}
	}
}

func (h *heldWriting) wait(t testing.TB) {
	t.Helper()
	select {
	case <-h.held:
	case <-time.After(podRunningLimit):
		t.Fatal("mgpu-device-plugin writes nothing")
	}
}

func (h *heldWriting) release() { _ = h.events.Close() }

// waitAllocated waits until kubelet has the response of the next Allocate, and returns its record. A pod
// whose Allocate fails is rejected permanently.
func (p *DevicePlugin) waitAllocated(t testing.TB, before []string, pod *corev1.Pod) string {
	t.Helper()
	record := ""
	err := pollEvery(time.Millisecond, podRunningLimit, "an allocation", func() (bool, string) {
		now := p.records()
		at := slices.IndexFunc(now, func(file string) bool { return !slices.Contains(before, file) })
		if at < 0 {
			return false, "none"
		}
		record = now[at]
		checkpoint, _ := os.ReadFile(p.node.checkpoint())
		return strings.Contains(string(checkpoint), string(pod.UID)), record
	})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func isBound(record string) bool {
	text, _ := os.ReadFile(record)
	return strings.Contains(string(text), `"owner"`)
}

// The plugin is killed at several points while a pod starts.
func TestNodePluginKilledWhileAPodStarts(t *testing.T) {
	world := newNodeWorld(t, v100s(4), "--settle-ms", "4000")
	plugin := world.plugin
	killed := map[string]string{
		"between-allocate-and-prestart": "0", "before-the-spec": "1", "before-the-record": "2", "before-the-answer": "3"}
	begin := func(name string) (record string) {
		before := plugin.records()
		pod := world.createBound(t, world.pod(name).share(50, 8000), killed[name])
		return plugin.waitAllocated(t, before, pod)
	}
	waitBound := func(record string) {
		waitFor(t, podRunningLimit, "the record to be bound", func() (bool, string) { return isBound(record), record })
	}
	crash := func(name string, bound bool, record string) {
		plugin.kill()
		if isBound(record) != bound {
			t.Errorf("%s: the record is bound: %v, want %v", name, !bound, bound)
		}
	}

	record := begin("between-allocate-and-prestart")
	crash("between-allocate-and-prestart", false, record)
	plugin.startAgain(t)
	waitBound(record) // so that the next file that is written belongs to the next pod

	hold := holdWriting(t, filepath.Dir(plugin.specFile()), 0)
	record = begin("before-the-spec")
	hold.wait(t)
	crash("before-the-spec", false, record)
	hold.release()
	plugin.startAgain(t)
	waitBound(record)

	hold = holdWriting(t, filepath.Dir(record), 1) // Allocate writes a record, too
	record = begin("before-the-record")
	hold.wait(t)
	if spec, _ := os.ReadFile(plugin.specFile()); !strings.Contains(string(spec), allocationOf(record)) {
		t.Errorf("the spec has no %s yet", allocationOf(record))
	}
	crash("before-the-record", false, record)
	hold.release()
	plugin.startAgain(t)

	record = begin("before-the-answer")
	waitBound(record)
	crash("before-the-answer", true, record)
	plugin.startAgain(t)

	for name := range killed {
		pod := world.waitRunning(t, name)
		world.checkView(t, pod)
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%s was restarted %d times", name, restarts)
		}
	}
	if count := len(plugin.records()); count != len(killed) {
		t.Errorf("%d records of %d pods", count, len(killed))
	}
}

func allocationOf(record string) string { return strings.TrimSuffix(filepath.Base(record), ".json") }

// runningPods creates a pod on each card, and returns the pods when they run.
func (w *NodeWorld) runningPods(t testing.TB, cards ...string) []*corev1.Pod {
	t.Helper()
	pods := make([]*corev1.Pod, len(cards))
	for _, card := range cards {
		w.createBound(t, w.pod("running-"+card).share(40, 8000), card)
	}
	for i, card := range cards {
		pods[i] = w.waitRunning(t, "running-"+card)
		w.checkView(t, pods[i])
	}
	return pods
}

// checkUnaffected checks that no container was restarted, and that new pods and restarted containers get the
// right cards.
func (w *NodeWorld) checkUnaffected(t testing.TB, pods []*corev1.Pod, card string) {
	t.Helper()
	name := "after-" + card
	w.createBound(t, w.pod(name).share(20, 4000), card)
	w.checkViews(t, name)
	w.checkSame(t, pods)
	w.node.killContainer(t, pods[0], "c0")
	w.checkView(t, w.waitRestarted(t, pods[0].Name, pods[0].Status.ContainerStatuses[0].RestartCount+1))
}

// checkSame checks that the same containers run.
func (w *NodeWorld) checkSame(t testing.TB, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if after := w.waitRunning(t, pod.Name); !sameContainers(pod, after) {
			t.Errorf("%s: containers were %+v, are %+v", pod.Name, pod.Status.ContainerStatuses,
				after.Status.ContainerStatuses)
		}
	}
}

func TestNodePluginKilledWhileContainersRun(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.plugin.kill()
	waitFor(t, 2*time.Minute, "kubelet to notice", func() (bool, string) {
		core := world.node.object(t).Status.Allocatable[coreResource]
		return core.IsZero(), core.String()
	})
	world.plugin.startAgain(t)
	world.checkUnaffected(t, pods, "2")
}
