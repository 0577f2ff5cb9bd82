package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const policyKey = domain + "/mgpu-policy"

func TestNodeReportsTheCapacityOfItsCards(t *testing.T) {
	world := newNodeWorld(t, v100s(4))
	// kubelet publishes the capacity before the plugin has written that it is registered.
	waitFor(t, 2*time.Minute, "MGPUReady", func() (bool, string) {
		return conditionOf(world.node.object(t), "MGPUReady")
	})
	one := world.node.object(t)
	for name, list := range map[string]corev1.ResourceList{
		"capacity": one.Status.Capacity, "allocatable": one.Status.Allocatable} {
		core, memory := list[coreResource], list[memoryResource]
		if core.String() != "400" || memory.String() != "130040" {
			t.Errorf("%s: %s of %s and %s of %s, want 400 and 130040", name, core.String(), coreResource,
				memory.String(), memoryResource)
		}
	}
	var announced struct {
		Version int
		Cards   []cardJSON
	}
	if err := json.Unmarshal([]byte(one.Annotations[cardsKey]), &announced); err != nil {
		t.Fatal(err)
	}
	if announced.Version != 1 || len(announced.Cards) != 4 || announced.Cards[3].MemoryMiB != cardMemoryMiB ||
		announced.Cards[3].Health != "Healthy" || announced.Cards[3].UUID != v100(3).UUID {
		t.Errorf("announces %+v", announced)
	}
}

func TestNodeContainersSeeExactlyTheCardsOfTheirAnnotation(t *testing.T) {
	world := newScheduledWorld(t, v100s(12))
	builders := []*PodBuilder{
		world.pod("one-share").share(30, 4000),
		world.pod("two-cards").share(60, 4000).share(60, 5000),
		world.pod("several-cards").share(100, 20000).annotation(multipleGPUKey, "2"),
		world.pod("whole-cards").wholeCards(2),
		world.pod("full-cards-less-memory").share(200, 32000),
		world.pod("init-before-app").initShare(20, 2000).share(30, 3000),
		world.pod("init-of-equal-share").initShare(25, 2000).share(25, 2000),
		world.pod("app-without-cards").share(10, 1000).container("plain", "", ""),
	}
	if world.node.minor >= kubeletHasSidecars {
		builders = append(builders, world.pod("sidecar").sidecar(10, 1000).share(20, 2000))
	} else {
		t.Logf("without a sidecar, because kubelet 1.%d has none", world.node.minor)
	}
	var names []string
	// The pods are created one by one while the cards are empty, because binpack prefers to fill a card
	// completely.
	for _, builder := range []*PodBuilder{
		world.pod("same-card").annotation(policyKey, "binpack").share(20, 2000).share(20, 3000),
		world.pod("first-of-a-card").annotation(policyKey, "binpack").share(5, 500),
		world.pod("second-of-a-card").annotation(policyKey, "binpack").share(5, 500),
	} {
		names = append(names, create(world.ctx, t, builder.runs()).Name)
		waitBound(world.ctx, t, world.namespace, builder.pod.Name)
	}
	for _, builder := range builders {
		names = append(names, create(world.ctx, t, builder.runs()).Name)
	}
	world.checkViews(t, names...)
	cardOf := func(pod, container string) string {
		return get(world.ctx, t, world.namespace, pod).Annotations[indexKeyPrefix+container]
	}
	if cardOf("two-cards", "c0") == cardOf("two-cards", "c1") {
		t.Error("60 % and 60 % are on one card")
	}
	if cardOf("same-card", "c0") != cardOf("same-card", "c1") {
		t.Error("binpack has put two small containers on two cards")
	}
	if cardOf("first-of-a-card", "c0") != cardOf("second-of-a-card", "c0") {
		t.Error("binpack has put two small pods on two cards")
	}
	nonGPU := world.node.viewOf(t, get(world.ctx, t, world.namespace, "app-without-cards"), "plain")
	if len(nonGPU.devices) != 0 || len(nonGPU.mgpuEnvironment()) != 0 {
		t.Errorf("a container without cards sees %v", nonGPU)
	}
}

func TestNodeWithCardsOfDifferentSizes(t *testing.T) {
	world := newScheduledWorld(t, []TestCard{v100(0), cardOf(1, "Tesla T4", 15360), cardOf(2, "A100", 81920)})
	create(world.ctx, t, world.pod("large").share(50, 60000).runs())
	create(world.ctx, t, world.pod("model").share(50, 9000).annotation(domain+"/gpu-model", "Tesla T4").runs())
	world.checkViews(t, "large", "model")
	create(world.ctx, t, world.pod("whole").wholeCards(1).runs())
	world.checkViews(t, "whole")
	for pod, card := range map[string]string{"whole": "0", "model": "1", "large": "2"} {
		if got := get(world.ctx, t, world.namespace, pod).Annotations[indexKeyPrefix+"c0"]; got != card {
			t.Errorf("%s has card %s, want %s", pod, got, card)
		}
	}
}

// The runtime would start the container without its cards, and report no error.
func TestNodeOffersNoCardWhereTheRuntimeHasNoCDI(t *testing.T) {
	world := nodeWorldOn(t, v100s(2))
	world.plugin.shareLibrary(t)
	world.plugin.startAgain(t)
	world.createBound(t, world.pod("before").share(30, 4000), "1")
	pod := world.waitRunning(t, "before")
	world.plugin.kill()
	world.node.enableCDI(t, false)
	t.Cleanup(func() { world.node.enableCDI(t, true) })
	world.plugin.start(t)
	const remedy = "has CDI disabled; set enable_cdi = true in its configuration"
	world.plugin.waitNotReady(t, remedy)
	waitFor(t, 2*time.Minute, "the node to offer only what the container holds", func() (bool, string) {
		one := world.node.object(t)
		ready, core := wholeCondition(one, "MGPUReady"), one.Status.Allocatable[coreResource]
		return ready.Status == corev1.ConditionFalse && strings.Contains(ready.Message, remedy) && core.Value() == 30,
			fmt.Sprint(ready, core.String())
	})
	world.checkSame(t, []*corev1.Pod{pod})
	world.node.killContainer(t, pod, "c0")
	world.waitSaid(t, pod, remedy)
	world.plugin.kill()
	world.node.enableCDI(t, true)
	world.plugin.startAgain(t)
	again := world.waitRestarted(t, "before", 1)
	world.checkView(t, again)
	checkLibrary(t, "before", world.node.viewOf(t, again, "c0"))
}

// enableCDI starts containerd again with or without CDI.
func (n *Node) enableCDI(t testing.TB, enabled bool) {
	t.Helper()
	config, err := os.ReadFile(n.path("containerd.toml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), fmt.Sprint("enable_cdi = ", !enabled), fmt.Sprint("enable_cdi = ", enabled), 1)
	if text == string(config) {
		return
	}
	if err := os.WriteFile(n.path("containerd.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	n.containerd.Kill()
	if err := n.startContainerd(); err != nil {
		t.Fatal(err)
	}
	if err := n.waitReady(); err != nil {
		t.Fatal(err)
	}
}

// waitSaid waits until an event of the plugin on the pod contains the sentence.
func (w *NodeWorld) waitSaid(t testing.TB, pod *corev1.Pod, sentence string) {
	t.Helper()
	waitFor(t, podRunningLimit, "an event that contains "+sentence, func() (bool, string) {
		said := pluginEventsOf(w.ctx, pod)
		return strings.Contains(said, sentence), said
	})
}

const sharedLibrary = "/usr/lib/libcuda.so.1"

// shareLibrary gives every container with cards a library of the driver.
func (p *DevicePlugin) shareLibrary(t testing.TB) {
	t.Helper()
	library := p.path("libcuda.so.1")
	if err := os.WriteFile(library, []byte("a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.mounts = []TestMount{{HostPath: library, ContainerPath: sharedLibrary}}
	p.writeCards(t, p.cards)
}

func checkLibrary(t testing.TB, name string, view View) {
	t.Helper()
	if options := strings.Split(view.mounts[sharedLibrary], ","); !slices.Contains(options, "ro") {
		t.Errorf("%s sees the mounts %v, want %s read-only", name, view.mounts, sharedLibrary)
	}
}
