package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	migCard    = "GPU-9e4aeb94-01c0-5173-4811-4ca60f77b3a9"
	plainCard  = "GPU-00000000-0000-4000-8000-000000000001"
	mig4g      = "MIG-c42101f0-a1fa-5b68-8908-7c5c887f28bd"
	mig2gFirst = "MIG-8970491e-16e0-5140-9f8f-d561baa3c186"
	mig2gNext  = "MIG-239565ce-30e3-52d7-8197-5630d3ce21fa"
	mig1g      = "MIG-20301a31-77fa-59ec-b0b8-7ef543821f29"
	mig2gNew   = "MIG-00000000-0000-5000-8000-000000000002"
	modelOfMIG = "NVIDIA A100-SXM4-40GB MIG "
)

// The card with MIG is what nvidia-smi -L, nvidia-smi mig -lgi and -lci, nvidia-smi and the list of
// /proc/driver/nvidia/capabilities print of an A100 with driver 580.126.09 on the page "NVIDIA GPU Sharing" of
// ssup2.github.io/blog-software: names, UUIDs, ids of instances, memory, and minor numbers of nvidia-caps. What
// nvmlDeviceGetName says of a MIG device is in ollama's tests of devices. The plain card beside it is added.
const (
	cardsOfMIG = "driver 580.126.09\n" +
		"card " + migCard + " minor=0 memory=40960 mig=1 name=NVIDIA_A100-SXM4-40GB capability=80\n" +
		"card " + plainCard + " minor=1 memory=40960 name=NVIDIA_A100-SXM4-40GB capability=80\n"
	instance4g  = "instance " + mig4g + " of=" + migCard + " gi=2 ci=0 memory=20096 name=NVIDIA_A100-SXM4-40GB_MIG_4g.20gb\n"
	instances2g = "instance " + mig2gFirst + " of=" + migCard + " gi=3 ci=0 memory=9984 name=NVIDIA_A100-SXM4-40GB_MIG_1c.2g.10gb\n" +
		"instance " + mig2gNext + " of=" + migCard + " gi=3 ci=1 memory=9984 name=NVIDIA_A100-SXM4-40GB_MIG_1c.2g.10gb\n"
	instance1g    = "instance " + mig1g + " of=" + migCard + " gi=9 ci=0 memory=4864 name=NVIDIA_A100-SXM4-40GB_MIG_1g.5gb\n"
	instance2gNew = "instance " + mig2gNew + " of=" + migCard + " gi=5 ci=0 memory=9984 name=NVIDIA_A100-SXM4-40GB_MIG_2g.10gb\n"
	capsOfMIG     = "config 1\nmonitor 2\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\ngpu0/gi3/access 30\ngpu0/gi3/ci0/access 31\n" +
		"gpu0/gi3/ci1/access 32\ngpu0/gi5/access 48\ngpu0/gi5/ci0/access 49\ngpu0/gi9/access 84\ngpu0/gi9/ci0/access 85\n"
)

// migMinors are the numbers of the device nodes, by their paths. Those of nvidia-caps have another major number on a
// node with a driver.
var migMinors = map[string]int{"/dev/nvidia0": 0, "/dev/nvidia1": 1, "/dev/nvidiactl": controlMinor,
	"/dev/nvidia-caps/nvidia-cap21": 21, "/dev/nvidia-caps/nvidia-cap22": 22, "/dev/nvidia-caps/nvidia-cap30": 30,
	"/dev/nvidia-caps/nvidia-cap31": 31, "/dev/nvidia-caps/nvidia-cap32": 32, "/dev/nvidia-caps/nvidia-cap48": 48,
	"/dev/nvidia-caps/nvidia-cap49": 49, "/dev/nvidia-caps/nvidia-cap84": 84, "/dev/nvidia-caps/nvidia-cap85": 85}

// migWorld is a node whose plugin reads NVML, with an extender and a scheduler.
type migWorld struct {
	*NodeWorld
	extender *Extender
}

func newMIGWorld(t *testing.T) *migWorld {
	t.Helper()
	library := built(t, "test/fake_nvml.so")
	extender := plane.startExtender(t)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	world := nodeWorldOn(t, nil)
	plugin := world.plugin
	// The root of the driver has the device nodes; the plugin sees them, and /proc, below another root.
	for path, minor := range migMinors {
		plugin.makeNode(t, plugin.path("driver", path), minor)
		plugin.makeNode(t, plugin.path("root", plugin.path("driver", path)), minor)
	}
	caps := plugin.path("root", "proc", "driver", "nvidia-caps")
	if err := os.MkdirAll(caps, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(caps+"/mig-minors", []byte(capsOfMIG), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MGPU_FAKE_NVML", plugin.path("nvml"))
	plugin.flags = []string{"--cards-file", "", "--nvml-library", library, "--node-root", plugin.path("root"),
		"--driver-root", plugin.path("driver"), "--check-driver=false", "--isolation", "none", "--reserve-mib", "0"}
	return &migWorld{world, extender}
}

// partition lets the driver have these MIG devices. `cards`, by their indices, are what the plugin publishes then.
func (w *migWorld) partition(t *testing.T, instances string, cards ...TestCard) {
	t.Helper()
	for i := range cards {
		cards[i].Index = i
	}
	w.plugin.cards = cards
	beside := w.plugin.path("nvml.new")
	if err := os.WriteFile(beside, []byte(cardsOfMIG+instances), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, w.plugin.path("nvml")); err != nil {
		t.Fatal(err)
	}
}

func cardOfMIG(uuid, profile string, memoryMiB int64, health string) TestCard {
	return TestCard{UUID: uuid, Model: modelOfMIG + profile, MemoryMiB: memoryMiB, Health: health}
}

// named returns a pod that asks for all of a card of this model.
func (w *migWorld) named(name, model string) *PodBuilder {
	return w.pod(name).wholeCards(1).annotation(domain+"/gpu-model", model)
}

// checkDevices compares what the container of the pod has.
func (w *migWorld) checkDevices(t *testing.T, pod *corev1.Pod, index, uuid string, memoryMiB int, paths ...string) {
	t.Helper()
	view := w.node.viewOf(t, pod, "c0")
	devices := map[string]string{"/dev/nvidiactl": w.plugin.numberOf(controlMinor)}
	for _, path := range paths {
		devices[path] = w.plugin.numberOf(migMinors[path])
	}
	if fmt.Sprint(view.devices) != fmt.Sprint(devices) || len(view.forbidden) > 0 {
		t.Errorf("pod %s has the devices %v, and may not open %v; want %v", pod.Name, view.devices, view.forbidden, devices)
	}
	for name, want := range map[string]string{"MGPU_CARDS": index, "MGPU_CARD_UUIDS": uuid, "MGPU_CORE_PERCENT": "100",
		"MGPU_MEMORY_MIB": fmt.Sprint(memoryMiB), "NVIDIA_VISIBLE_DEVICES": "void"} {
		if got := view.environment[name]; got != want {
			t.Errorf("%s of pod %s is %q, want %q", name, pod.Name, got, want)
		}
	}
}

// Pods get the MIG devices that they name, and others the card without MIG. A device that is deleted takes no pods and
// no restarts, and the container on it runs on; those of a new partition take pods.
func TestNodeMIGDevicesAreCards(t *testing.T) {
	world := newMIGWorld(t)
	parent := TestCard{UUID: migCard, Health: "MIG"}
	plain := TestCard{UUID: plainCard, MemoryMiB: 40960}
	const sharing = "shares the memory of its GPU instance with another MIG device"
	world.partition(t, instance4g+instances2g+instance1g, parent, plain, cardOfMIG(mig4g, "4g.20gb", 20096, ""),
		cardOfMIG(mig2gFirst, "1c.2g.10gb", 9984, sharing), cardOfMIG(mig2gNext, "1c.2g.10gb", 9984, sharing),
		cardOfMIG(mig1g, "1g.5gb", 4864, ""))
	world.plugin.startAgain(t)
	world.extender.waitCards(t, world.plugin.cards)

	create(world.ctx, t, world.named("large", "MIG 4g.20gb").runs())
	create(world.ctx, t, world.named("small", "A100 MIG 1g.5gb").runs())
	create(world.ctx, t, world.pod("plain").wholeCards(1).runs())
	large := world.waitRunning(t, "large")
	world.checkDevices(t, large, "2", mig4g, 20096, "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22")
	small := world.waitRunning(t, "small")
	world.checkDevices(t, small, "5", mig1g, 4864, "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap84", "/dev/nvidia-caps/nvidia-cap85")
	world.checkDevices(t, world.waitRunning(t, "plain"), "1", plainCard, 40960, "/dev/nvidia1")
	world.remove(t, "small")
	// The device that is free now is not for pods that do not name it.
	create(world.ctx, t, world.pod("waits").share(10, 1024).runs())
	waitPending(world.ctx, t, world.namespace, "waits", "node(s) had no single card with enough free mgpu-core")

	world.partition(t, instance2gNew+instance1g, parent, plain, cardOfMIG(mig4g, "4g.20gb", 20096, "Lost"),
		cardOfMIG(mig2gFirst, "1c.2g.10gb", 9984, "Lost"), cardOfMIG(mig2gNext, "1c.2g.10gb", 9984, "Lost"),
		cardOfMIG(mig1g, "1g.5gb", 4864, ""), cardOfMIG(mig2gNew, "2g.10gb", 9984, ""))
	world.plugin.waitOfferedWith(t, 100, 0)
	world.extender.waitCards(t, world.plugin.cards)
	if after := get(world.ctx, t, world.namespace, "large"); !sameContainers(large, after) {
		t.Error("the container on the MIG device that was deleted was stopped")
	}
	waitFor(t, 2*time.Minute, "an event on the pod of the deleted MIG device", func() (bool, string) {
		said := pluginEventsOf(world.ctx, large)
		return strings.Contains(said, mig4g) && strings.Contains(said, "Lost"), said
	})
	create(world.ctx, t, world.named("new", "MIG 2g.10gb").runs())
	world.checkDevices(t, world.waitRunning(t, "new"), "6", mig2gNew, 9984, "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap48",
		"/dev/nvidia-caps/nvidia-cap49")
	create(world.ctx, t, world.named("late", "MIG 4g.20gb").runs())
	waitPending(world.ctx, t, world.namespace, "late", "node(s) had too few healthy cards")
	create(world.ctx, t, world.named("nobody", "MIG 7g.40gb").runs())
	waitPending(world.ctx, t, world.namespace, "nobody", "node(s) had no card of the requested model or UUID")

	world.node.killContainer(t, large, "c0")
	waitFor(t, podRunningLimit, "the refusal of a start on the deleted MIG device", func() (bool, string) {
		after := get(world.ctx, t, world.namespace, "large")
		status := statusOf(after)
		return strings.Contains(status, "CreateContainerConfigError") &&
			strings.Contains(pluginEventsOf(world.ctx, after), mig4g), status + pluginEventsOf(world.ctx, after)
	})
}
