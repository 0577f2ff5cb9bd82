package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestNodeUnhealthyCardDoesNotAffectOthers(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	cards := v100s(3)
	cards[1].Health = "XID 79"
	world.plugin.writeCards(t, cards)
	world.plugin.waitOfferedWith(t, 40, 8000)
	waitFor(t, 2*time.Minute, "an event on the pod of the unhealthy card", func() (bool, string) {
		said := pluginEventsOf(world.ctx, pods[1])
		return strings.Contains(said, "XID 79"), said
	})
	if said := pluginEventsOf(world.ctx, pods[0]); strings.Contains(said, "XID") {
		t.Errorf("a pod on a healthy card has the event %s", said)
	}
	world.checkUnaffected(t, pods[:1], "2")
	if after := get(world.ctx, t, world.namespace, pods[1].Name); !sameContainers(pods[1], after) {
		t.Error("the container on the unhealthy card was stopped")
	}
	world.plugin.writeCards(t, v100s(3))
	world.plugin.waitOffered(t)
	world.createBound(t, world.pod("well-again").share(20, 3000), "1")
	world.checkViews(t, "well-again")
}

// kube-scheduler and kubelet subtract the request of the pod on the unhealthy card, too.
func TestNodeHealthyCardsAreUsableBesideAnUnhealthyOneInUse(t *testing.T) {
	world := newScheduledWorld(t, v100s(3))
	for _, card := range []string{"0", "1"} {
		world.createBound(t, world.pod("holds-"+card).wholeCards(1), card)
	}
	world.checkViews(t, "holds-0", "holds-1")
	cards := v100s(3)
	cards[0].Health = "XID 79"
	world.plugin.writeCards(t, cards)
	// Whole cards request no memory.
	world.plugin.waitOfferedWith(t, 100, 0)
	create(world.ctx, t, world.pod("late").wholeCards(1).runs())
	if late := world.waitRunning(t, "late"); late.Annotations[indexKeyPrefix+"c0"] != "2" {
		t.Errorf("bound with %v, want card 2", late.Annotations)
	}
	world.checkViews(t, "late")
	create(world.ctx, t, world.pod("too-much").share(10, 1000).runs())
	waitPending(world.ctx, t, world.namespace, "too-much", "Insufficient "+coreResource)

	// kubelet admits all pods again, also the one on the unhealthy card.
	before := world.waitRunning(t, "holds-0")
	world.node.kubelet.Kill()
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 60*time.Second, "the plugin to register again", func() (bool, string) {
		status, text, err := world.plugin.get("/readyz")
		return err == nil && status == 200, text
	})
	world.plugin.waitOfferedWith(t, 100, 0)
	if after := world.waitRunning(t, "holds-0"); !sameContainers(before, after) {
		t.Error("the container on the unhealthy card was stopped")
	}

	world.remove(t, "holds-0")
	world.plugin.waitOffered(t)
	waitPending(world.ctx, t, world.namespace, "too-much", "Insufficient "+coreResource)
	world.remove(t, "holds-1")
	world.waitRunning(t, "too-much")
}

// A card that replaces a lost card gets another index.
func TestNodeLostCardKeepsItsIndex(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.runningPods(t, "1")[0]
	other := v100(1)
	other.UUID = "GPU-other"
	world.plugin.writeCards(t, []TestCard{v100(0), other})
	waitFor(t, 2*time.Minute, "the card to be lost", func() (bool, string) {
		one := world.node.object(t)
		core := one.Status.Allocatable[coreResource]
		annotation := one.Annotations[cardsKey]
		// The pod on the lost card holds 40.
		return core.Value() == 140 && strings.Contains(annotation, "Lost") && strings.Contains(annotation, v100(1).UUID) &&
			!strings.Contains(annotation, "GPU-other"), core.String() + " " + annotation
	})
	world.createBound(t, world.pod("late").share(20, 3000), "1")
	waitFor(t, podRunningLimit, "the late pod to be rejected", func() (bool, string) {
		late := get(world.ctx, t, world.namespace, "late")
		refused := late.Status.Phase == corev1.PodFailed || strings.Contains(pluginEventsOf(world.ctx, late), v100(1).UUID)
		return refused && late.Status.Phase != corev1.PodRunning, statusOf(late) + eventsOf(world.ctx, late)
	})
	world.plugin.writeCards(t, v100s(2))
	world.plugin.waitOffered(t)
	if after := world.waitRunning(t, pod.Name); !sameContainers(pod, after) {
		t.Error("the container on the lost card was stopped")
	}
}
