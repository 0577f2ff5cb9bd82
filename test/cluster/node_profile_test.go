package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const profiles = `profiles:
- name: double
  nodeSelector: {mgpu-test/pool: double}
  policy: spread
  minimumCore: 10
  computeFactor: 2
- name: reserving
  reserveMiB: 1000
  reservedCards: [0]
`

// profileWorld is a world whose plugin has profiles, and whose node has none of them yet.
type profileWorld struct {
	*NodeWorld
	extender *Extender
}

func newProfileWorld(t *testing.T, cards int) *profileWorld {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(file, []byte(profiles), 0o644); err != nil {
		t.Fatal(err)
	}
	world := &profileWorld{extender: plane.startExtender(t)}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.NodeWorld = newNodeWorld(t, v100s(cards), "--profiles", file)
	t.Cleanup(func() { world.label(t, "mgpu-test/pool", ""); world.label(t, domain+"/mgpu-profile", "") })
	return world
}

func (w *profileWorld) label(t testing.TB, key, value string) { w.node.setLabel(t, key, value) }

// setLabel sets a label of the node; an empty value removes it.
func (n *Node) setLabel(t testing.TB, key, value string) {
	t.Helper()
	text, _ := json.Marshal(value)
	if value == "" {
		text = []byte("null")
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, text)
	_, err := n.plane.admin.CoreV1().Nodes().Patch(context.Background(), nodeName, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// profileView is what /inspect/cluster shows of a node.
type profileView struct {
	Name    string `json:"name"`
	Profile struct {
		Name   string `json:"name"`
		Policy string `json:"policy"`
	} `json:"profile"`
	Cards []struct {
		Reserved bool                           `json:"reserved"`
		Core     struct{ Capacity, Used int64 } `json:"core"`
		Memory   struct{ Capacity, Used int64 } `json:"memoryMiB"`
	} `json:"cards"`
}

func (w *profileWorld) view(t testing.TB) profileView {
	t.Helper()
	_, text, err := w.extender.get("/inspect/cluster")
	var cluster struct{ Nodes []profileView }
	if err == nil {
		err = json.Unmarshal([]byte(text), &cluster)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(cluster.Nodes, func(node profileView) bool { return node.Name == nodeName })
	if at < 0 {
		return profileView{}
	}
	return cluster.Nodes[at]
}

// waitFollows waits until the extender shows the profile, and kubelet offers this compute and memory.
func (w *profileWorld) waitFollows(t testing.TB, profile string, core, memory int64) {
	t.Helper()
	waitFor(t, 60*time.Second, "the node to follow the profile "+profile, func() (bool, string) {
		allocatable := w.node.object(t).Status.Allocatable
		gotCore, gotMemory := allocatable[coreResource], allocatable[memoryResource]
		view := w.view(t)
		return view.Name == nodeName && view.Profile.Name == profile && gotCore.Value() == core && gotMemory.Value() == memory,
			fmt.Sprint(gotCore.String(), " and ", gotMemory.String(), ", ", view)
	})
}

// checkCards fails where a card has more in use than its configured capacity.
func (w *profileWorld) checkCards(t testing.TB) {
	t.Helper()
	cards := w.view(t).Cards
	if len(cards) != len(w.plugin.cards) {
		t.Errorf("inspect shows the cards %+v, want %d", cards, len(w.plugin.cards))
	}
	for index, card := range cards {
		if card.Core.Used > card.Core.Capacity || card.Memory.Used > card.Memory.Capacity || card.Memory.Capacity > cardMemoryMiB {
			t.Errorf("card %d is over its capacity: %+v", index, card)
		}
	}
}

// onCard returns a pod that only fits the card of this index.
func (w *profileWorld) onCard(name string, index int) *PodBuilder {
	return w.pod(name).annotation(domain+"/gpu-uuid", v100(index).UUID)
}

// kube-scheduler sees enough of both resources on the other card, so that the extender decides.
func TestNodeProfileOversubscribesComputeAndNeverMemory(t *testing.T) {
	world := newProfileWorld(t, 2)
	world.label(t, "mgpu-test/pool", "double")
	world.waitFollows(t, "double", 400, 2*cardMemoryMiB)
	if policy := world.view(t).Profile.Policy; policy != "spread" {
		t.Errorf("inspect shows the policy %q", policy)
	}
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		create(world.ctx, t, world.onCard(name, 0).share(50, 6000).runs())
	}
	world.checkViews(t, names...)
	if card := world.view(t).Cards[0]; card.Core.Used != 200 {
		t.Errorf("the card has %d %% in use, want 200", card.Core.Used)
	}
	create(world.ctx, t, world.onCard("compute", 0).share(10, 1000).runs())
	waitPending(world.ctx, t, world.namespace, "compute", coreShort)
	world.remove(t, "d", "compute")
	create(world.ctx, t, world.onCard("memory", 0).share(50, cardMemoryMiB-3*6000+1).runs())
	waitPending(world.ctx, t, world.namespace, "memory", "node(s) had no single card with enough free mgpu-memory")
	world.checkCards(t)
	create(world.ctx, t, world.pod("small").share(5, 1000).runs())
	waitPending(world.ctx, t, world.namespace, "small", "node(s) required a larger share of a card")
}

// A smaller factor leaves what runs, and returns to its own capacity when pods end.
func TestNodeProfileFollowsALabelWhilePodsRun(t *testing.T) {
	world := newProfileWorld(t, 2)
	world.label(t, "mgpu-test/pool", "double")
	world.waitFollows(t, "double", 400, 2*cardMemoryMiB)
	for _, name := range []string{"a", "b", "c"} {
		create(world.ctx, t, world.onCard(name, 0).share(50, 6000).runs())
	}
	world.checkViews(t, "a", "b", "c")
	before := world.waitRunning(t, "a")

	world.label(t, "mgpu-test/pool", "other")
	world.waitFollows(t, "", 250, 2*cardMemoryMiB)
	world.checkCards(t)
	if after := world.waitRunning(t, "a"); !sameContainers(before, after) {
		t.Error("the container was restarted by the new profile")
	}
	world.node.killContainer(t, before, "c0")
	world.checkView(t, world.waitRestarted(t, "a", 1))
	create(world.ctx, t, world.onCard("d", 0).share(10, 1000).runs())
	waitPending(world.ctx, t, world.namespace, "d", coreShort)

	world.remove(t, "b", "c")
	world.waitFollows(t, "", 200, 2*cardMemoryMiB)
	world.checkViews(t, "d")
	world.checkCards(t)
}

func TestNodeProfileReservesMemoryAndACard(t *testing.T) {
	world := newProfileWorld(t, 2)
	create(world.ctx, t, world.onCard("old", 0).share(30, 4000).runs())
	world.checkViews(t, "old")
	world.label(t, domain+"/mgpu-profile", "reserving")
	// The capacity is that of the other card, and what the pod holds of the reserved one.
	world.waitFollows(t, "reserving", 130, cardMemoryMiB-1000+4000)
	if cards := world.view(t).Cards; !cards[0].Reserved || cards[1].Memory.Capacity != cardMemoryMiB-1000 {
		t.Errorf("inspect shows %+v", cards)
	}
	create(world.ctx, t, world.pod("new").share(30, 4000).runs())
	pod := world.waitRunning(t, "new")
	if card := pod.Annotations[indexKeyPrefix+"c0"]; card != "1" {
		t.Errorf("the pod got card %s", card)
	}
	old := world.waitRunning(t, "old")
	world.node.killContainer(t, old, "c0")
	world.checkView(t, world.waitRestarted(t, "old", 1))

	world.label(t, domain+"/mgpu-profile", "nobody")
	waitFor(t, 60*time.Second, "the unknown profile to be reported", func() (bool, string) {
		annotation := world.node.object(t).Annotations[cardsKey]
		return strings.Contains(annotation, `names the profile \"nobody\"`) &&
			strings.Contains(annotation, `"profile":"reserving"`), annotation
	})
}
