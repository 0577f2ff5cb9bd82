package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	sharedCard   = "GPU-6d677075-0000-4000-8000-000000000001"
	fakeLibcuda  = "/usr/lib64/libcuda.so.1"
	fakeNVML     = "/usr/lib64/libnvidia-ml.so.1"
	fakeContext  = 528 // MiB, what --context-mib reserves
	clientOfCUDA = "/usr/bin/cuda-client"
	busyCUDA     = "/usr/bin/cuda-turns"
	outOfMemory  = 2 // CUDA_ERROR_OUT_OF_MEMORY
)

// useFakeGPU gives the node one card of test/gpu, which containers see as a driver.
func (p *DevicePlugin) useFakeGPU(t testing.TB) {
	t.Helper()
	programs := built(t, "test/fake-gpu")
	machine, scenario := p.path("machine"), p.path("scenario.yaml")
	if err := os.WriteFile(scenario, []byte("cards:\n  - uuid: "+sharedCard+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(programs, "fake_gpu_machine"), scenario, machine).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(machine, 0o666); err != nil {
		t.Fatal(err)
	}
	no := false
	p.mounts = []TestMount{{HostPath: machine, ContainerPath: "/machine", ReadOnly: &no}}
	for path, file := range map[string]string{fakeLibcuda: filepath.Join(programs, "libcuda.so.1"),
		fakeNVML:                      filepath.Join(programs, "libnvidia-ml.so.1"),
		clientOfCUDA:                  filepath.Join(programs, "fake_gpu_client"),
		busyCUDA:                      filepath.Join(programs, "fake_gpu_turns"),
		"/lib64/ld-linux-x86-64.so.2": "/lib64/ld-linux-x86-64.so.2",
		"/usr/lib64/libc.so.6":        "/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib64/libm.so.6":        "/lib/x86_64-linux-gnu/libm.so.6",
		"/usr/lib64/libdl.so.2":       "/lib/x86_64-linux-gnu/libdl.so.2",
		"/usr/lib64/libpthread.so.0":  "/lib/x86_64-linux-gnu/libpthread.so.0"} {
		p.mounts = append(p.mounts, TestMount{HostPath: file, ContainerPath: path})
	}
	p.environment = map[string]string{"MGPU_FAKE_GPU": "/machine", "LD_LIBRARY_PATH": "/usr/lib64"}
	card := cardOf(0, "H200", 143155)
	card.UUID = sharedCard
	p.writeCards(t, []TestCard{card})
}

// newInterceptWorld returns a node with such a card, on which the library limits memory.
func newInterceptWorld(t *testing.T, flags ...string) *NodeWorld {
	t.Helper()
	world := nodeWorldOn(t, nil, append([]string{"--isolation", "intercept"}, flags...)...)
	world.plugin.useFakeGPU(t)
	world.plugin.startAgain(t)
	return world
}

// cudaView is what a CUDA program has printed.
type cudaView struct{ total, free, allocated, result, nvmlTotal, nvmlUsed int }

var clientLine = regexp.MustCompile(`CLIENT total (\d+) free (\d+) allocated (\d+) error (\d+) nvml (\d+) used (\d+)`)

// cudaViews waits until the container has printed its view, after what its programs have printed.
func (n *Node) cudaViews(t *testing.T, pod *corev1.Pod, container string) []cudaView {
	t.Helper()
	n.viewOf(t, pod, container)
	var views []cudaView
	for _, line := range clientLine.FindAllStringSubmatch(n.logOf(pod, container), -1) {
		var numbers [6]int
		for i := range numbers {
			numbers[i], _ = strconv.Atoi(line[i+1])
		}
		views = append(views, cudaView{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]})
	}
	if len(views) == 0 {
		t.Fatalf("no program of container %s of %s used CUDA:\n%s", container, pod.Name, n.logOf(pod, container))
	}
	return views
}

// The first program stays with 640 MiB, beside which the second one takes all that it gets.
const (
	firstTakes = 640
	twoClients = "first=/dev/shm/$MGPU_ALLOCATION\nrm -f $first\n" + clientOfCUDA + " 10 >$first &\n" +
		"until grep -qs CLIENT $first; do sleep 0.1; done\ncat $first\n" + clientOfCUDA + "\n"
)

// The programs of a container have its limit together, and each container has its own.
func TestNodeLibraryLimitsTheMemoryOfContainers(t *testing.T) {
	world := newInterceptWorld(t, "--compute", "burst")
	pod := world.pod("shares").share(30, 2048).share(20, 4096).running(twoClients)
	one, nobody := int64(65534), true
	pod.pod.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: &one, ReadOnlyRootFilesystem: &nobody}
	world.createBound(t, pod, "0", "0")
	running := world.waitRunning(t, "shares")
	world.node.checkTwoClients(t, running)
	world.waitMetric(t, 2048<<20, "mgpu_container_memory_limit_bytes", `container="c0"`)
	// The driver of this node, a file, reports no use. What the first program holds is reserved.
	world.waitMetric(t, 0, "mgpu_container_memory_uncounted_bytes", `container="c0"`)
	waitFor(t, sampledLimit, "what the container has reserved", func() (bool, string) {
		reserved := world.plugin.metrics(t).with("mgpu_container_memory_reserved_bytes", `container="c0"`)
		return reserved >= (firstTakes+fakeContext)<<20 && reserved <= 2048<<20, fmt.Sprint(reserved)
	})
	world.node.checkPages(t, running, "c0")
}

// checkTwoClients compares what twoClients have seen with the limits of the containers.
func (n *Node) checkTwoClients(t *testing.T, running *corev1.Pod) {
	t.Helper()
	for container, limit := range map[string]int{"c0": 2048, "c1": 4096} {
		views := n.cudaViews(t, running, container)
		if len(views) != 2 {
			t.Fatalf("%s: %d programs saw the card, want 2:\n%s", container, len(views), n.logOf(running, container))
		}
		first, second := views[0], views[1]
		if first.total != limit || second.total != limit {
			t.Errorf("%s: programs saw %d and %d MiB, want %d", container, first.total, second.total, limit)
		}
		if first.allocated != firstTakes || second.result != outOfMemory {
			t.Errorf("%s: the first program has %d MiB and the second one ended with error %d", container, first.allocated, second.result)
		}
		if first.nvmlTotal != limit || first.nvmlUsed != firstTakes+fakeContext || second.nvmlTotal != limit {
			t.Errorf("%s: NVML told of %d of %d and then of %d of %d MiB, want %d of %d", container, first.nvmlUsed,
				first.nvmlTotal, second.nvmlUsed, second.nvmlTotal, firstTakes+fakeContext, limit)
		}
		sum := first.allocated + second.allocated + 2*fakeContext
		if sum > limit || sum < limit-64 || second.nvmlUsed != sum {
			t.Errorf("%s: its programs have %d MiB of %d, NVML says %d", container, sum, limit, second.nvmlUsed)
		}
	}
}

// checkPages tries what a tenant could do with the files of its share.
func (n *Node) checkPages(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	pid := strconv.Itoa(n.pidOf(t, pod, container))
	pages := "/run/mgpu/share/" + sharedCard
	for command, refused := range map[string]string{
		"echo x > " + pages + "/limits":                                        "Read-only file system",
		"echo x > " + pages + "/turn":                                          "Read-only file system",
		"touch /run/mgpu/share/more":                                           "Read-only file system",
		"mv " + pages + "/usage " + pages + "/other":                           "Read-only file system",
		"dd if=/dev/zero of=" + pages + "/usage bs=4096 seek=8 count=1":        "No space left on device",
		"echo x > " + fakeLibcuda:                                              "Read-only file system",
		"ls /usr/local/cuda/compat/* 2>&1":                                     "No such file or directory",
		"echo x > /usr/lib/mgpu/libmgpu-cuda-driver.so":                        "Read-only file system",
		"cp /bin/busybox " + pages + "/usage && chmod 777 " + pages + "/usage": "No space left on device"} {
		out, err := exec.Command("nsenter", "-t", pid, "-m", "-p", "-r", "-w", "/bin/sh", "-c", command).CombinedOutput()
		if err == nil || !strings.Contains(string(out), refused) {
			t.Errorf("%q in a container printed %q (%v), want %q", command, out, err, refused)
		}
	}
}

// A page that a tenant overwrites, and a volume in its place, harm only that container.
func TestNodeLibraryRefusesDamagedPages(t *testing.T) {
	world := newInterceptWorld(t)
	damage := "dd if=/dev/zero of=/run/mgpu/share/" + sharedCard + "/usage conv=notrunc bs=64 count=1 2>/dev/null\n" +
		clientOfCUDA + "\n"
	world.createBound(t, world.pod("damaged").share(30, 2048).running(damage), "0")
	world.createBound(t, world.pod("whole").share(30, 2048).running(clientOfCUDA+"\n"), "0")
	damaged := world.waitRunning(t, "damaged")
	world.node.viewOf(t, damaged, "c0")
	log := world.node.logOf(damaged, "c0")
	for _, want := range []string{"CLIENT cuInit failed: 802", "is not a page of mgpu", "Restart the container"} {
		if !strings.Contains(log, want) {
			t.Errorf("a program with a damaged page printed %q, want %q", log, want)
		}
	}
	whole := world.waitRunning(t, "whole")
	if views := world.node.cudaViews(t, whole, "c0"); views[0].total != 2048 {
		t.Errorf("the container beside it saw %d MiB", views[0].total)
	}
}

// A restart of the plugin, of the container and of both keeps the limit, and what has ended is free again.
func TestNodeLibraryKeepsLimitsOverRestarts(t *testing.T) {
	world := newInterceptWorld(t)
	world.createBound(t, world.pod("again").share(30, 2048).running(twoClients), "0")
	pod := world.waitRunning(t, "again")
	first := world.node.cudaViews(t, pod, "c0")
	world.plugin.kill()
	world.plugin.startAgain(t)
	for starts := int32(1); starts <= 2; starts++ {
		world.node.killContainer(t, pod, "c0")
		pod = world.waitRestarted(t, "again", starts)
		again := world.node.cudaViews(t, pod, "c0")
		if fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("after restart %d of the container its programs saw %v, before %v", starts, again, first)
		}
	}
	folder := filepath.Join(world.plugin.path("run"), "share")
	world.remove(t, "again")
	waitFor(t, 60*time.Second, "the removal of the pages", func() (bool, string) {
		left, _ := os.ReadDir(folder)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// A card on which the library does not hold its limit is not offered. What has passed is not tested again, as on cards
// that are full meanwhile.
func TestNodeLibraryOffersNoCardThatFailsItsSelfTest(t *testing.T) {
	world := newInterceptWorld(t)
	world.waitMetric(t, 1, "mgpu_plugin_self_test", `uuid="`+sharedCard+`"`, `result="passed"`)
	world.plugin.kill()
	world.plugin.environment["MGPU_FAKE_GPU_FAULT"] = "pool"
	world.plugin.writeCards(t, world.plugin.cards)
	world.plugin.startAgain(t)
	world.waitMetric(t, 1, "mgpu_plugin_self_test", `uuid="`+sharedCard+`"`, `result="passed"`)
	world.plugin.kill()
	if err := os.Remove(world.plugin.path("state", "self-tests")); err != nil {
		t.Fatal(err)
	}
	world.plugin.start(t)
	world.plugin.waitReady(t)
	const why = "pool: cuMemAllocAsync gave 192 MiB where 96 were left"
	waitFor(t, 2*time.Minute, "a condition with the reason", func() (bool, string) {
		node := world.node.object(t)
		for _, condition := range node.Status.Conditions {
			if condition.Type == "MGPUReady" {
				return condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, why), condition.Message
			}
		}
		return false, "no condition"
	})
	waitFor(t, 60*time.Second, "a node that offers nothing of the card", func() (bool, string) {
		core := world.node.object(t).Status.Allocatable[coreResource]
		return core.IsZero(), core.String()
	})
	world.waitMetric(t, 1, "mgpu_plugin_self_test", `result="failed"`)
	if log := world.plugin.logText(); !strings.Contains(log, why) {
		t.Errorf("the log does not have the reason:\n%s", log)
	}
}

// A container with all of a card's compute is alone on it and needs no limit.
func TestNodeLibraryIsForPartsOfCards(t *testing.T) {
	world := newInterceptWorld(t)
	world.createBound(t, world.pod("whole").wholeCards(1).running(clientOfCUDA+"\n"), "0")
	pod := world.waitRunning(t, "whole")
	if views := world.node.cudaViews(t, pod, "c0"); views[0].total != 143155 {
		t.Errorf("a container with the whole card saw %d MiB", views[0].total)
	}
}

// Two busy containers have the time of the card by their shares, and a plugin that is killed and starts again goes on.
func TestNodeLibraryDealsTheTimeOfACardByShares(t *testing.T) {
	world := newInterceptWorld(t, "--compute", "burst")
	busy := "while true; do echo x | " + busyCUDA + " 200 0 1 1000; done\n"
	for name, percent := range map[string]int{"more": 70, "less": 30} {
		world.createBound(t, world.pod(name).share(percent, 2048).running(busy), "0")
	}
	more, less := world.waitRunning(t, "more"), world.waitRunning(t, "less")
	world.node.wantTimes(t, more, less, 0.55, 0.85)
	world.plugin.kill()
	world.plugin.startAgain(t)
	world.node.wantTimes(t, more, less, 0.55, 0.85)
	if environment := world.node.logOf(more, "c0"); strings.Contains(environment, "error") {
		t.Errorf("a program failed: %s", environment)
	}
}

// wantTimes compares what the first pod has of the kernels that both run: the median of some windows of seconds. It
// measures only while the card is busy at least half of the time: on a machine with other load nobody has to wait for it.
func (n *Node) wantTimes(t *testing.T, first, second *corev1.Pod, least, most float64) {
	t.Helper()
	const lines, busy, windows = 4, 2500, 3 // kernels of 200 us in a second
	counts := func() [2][]float64 {
		return [2][]float64{kernelCounts(n.logOf(first, "c0")), kernelCounts(n.logOf(second, "c0"))}
	}
	var parts []float64
	for len(parts) < windows {
		before := counts()
		var sums [2]float64
		waitFor(t, 5*time.Minute, "lines of both programs", func() (bool, string) {
			now := counts()
			for i := range now {
				// The first ones began while the plugin did not know both.
				if len(now[i]) <= len(before[i])+2+lines {
					return false, fmt.Sprint(now)
				}
				sums[i] = 0
				for _, count := range now[i][len(now[i])-lines:] {
					sums[i] += count
				}
			}
			return sums[0]+sums[1] >= lines*busy, fmt.Sprint(now)
		})
		parts = append(parts, sums[0]/(sums[0]+sums[1]))
	}
	t.Logf("the first one had %.3f of the time", parts)
	slices.Sort(parts)
	if part := parts[windows/2]; part < least || part > most {
		t.Errorf("the first one had %.3f of the time, want %.2f to %.2f: %v", part, least, most, parts)
	}
}

var kernelLine = regexp.MustCompile(`(?m)(?:^|\s)(\d{2,6})$`)

// kernelCounts are the numbers that fake_gpu_turns has printed.
func kernelCounts(log string) []float64 {
	var counts []float64
	for _, line := range kernelLine.FindAllStringSubmatch(log, -1) {
		count, _ := strconv.ParseFloat(line[1], 64)
		counts = append(counts, count)
	}
	return counts
}
