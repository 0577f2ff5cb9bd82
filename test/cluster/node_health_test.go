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
	world.plugin.waitOffered(t)
	waitFor(t, 30*time.Second, "an event on the pod of the unhealthy card", func() (bool, string) {
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

// A card that replaces a lost card gets another index.
func TestNodeLostCardKeepsItsIndex(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pod := world.runningPods(t, "1")[0]
	other := v100(1)
	other.UUID = "GPU-other"
	world.plugin.writeCards(t, []TestCard{v100(0), other})
	waitFor(t, 30*time.Second, "the card to be lost", func() (bool, string) {
		one := world.node.object(t)
		core := one.Status.Allocatable[coreResource]
		annotation := one.Annotations[cardsKey]
		return core.Value() == 100 && strings.Contains(annotation, "Lost") && strings.Contains(annotation, v100(1).UUID) &&
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
