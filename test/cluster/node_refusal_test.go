package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods are bound without the extender. Each has an event with the reason why it does not start, and
// starts when the reason is gone.
func TestNodeRejectsContainersWithAReason(t *testing.T) {
	cards := v100s(3)
	cards[2].Health = "XID 79"
	world := newNodeWorld(t, cards)
	world.createBound(t, world.pod("holder").share(80, 20000), "0")
	world.checkViews(t, "holder")
	refusals := []struct {
		pod, cards string
		core       int
		want       string
	}{
		{"no-such-card", "7", 5, "is assigned card 7, and this node has cards 0, 1, 2"},
		{"unhealthy-card", "2", 5, "which is not healthy: XID 79"},
		{"full-card", "0", 30, ", of which pods " + world.namespace + "/holder use 80 % and 20000 MiB"},
		{"not-a-card", "one", 5, `"one"`},
		{"too-many-cards", "0,1", 5, "0,1"},
		{"no-annotations", "", 5, "was not bound by mgpu-extender"},
	}
	for _, one := range refusals {
		builder := world.pod(one.pod).share(one.core, 4000)
		if one.cards == "" {
			world.createBound(t, builder)
		} else {
			world.createBound(t, builder, one.cards)
		}
	}
	for _, one := range refusals {
		world.waitRefused(t, one.pod, one.want)
	}
	world.createBound(t, world.pod("good").share(30, 4000), "1")
	world.checkViews(t, "good")

	cards[2].Health = ""
	world.plugin.writeCards(t, cards)
	world.remove(t, "holder")
	world.checkViews(t, "unhealthy-card", "full-card")
	for _, one := range refusals {
		if one.pod != "unhealthy-card" && one.pod != "full-card" {
			world.waitRefused(t, one.pod, one.want)
		}
	}
}

// remove deletes pods and waits until they are gone.
func (w *NodeWorld) remove(t testing.TB, names ...string) {
	t.Helper()
	pods := plane.admin.CoreV1().Pods(w.namespace)
	for _, name := range names {
		if err := pods.Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, podsGoneLimit, strings.Join(names, ", ")+" to be gone", func() (bool, string) {
		left := ""
		for _, name := range names {
			if pod, err := pods.Get(w.ctx, name, metav1.GetOptions{}); err == nil {
				left += " " + name + " " + statusOf(pod)
			}
		}
		return left == "", left
	})
}

// Pods that are bound to the same card at the same time cannot each have 60 % of it.
func TestNodeNeverAllocatesACardTwice(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	names := []string{"one", "two", "three"}
	for _, name := range names {
		world.createBound(t, world.pod(name).share(60, 8000), "1")
	}
	running := func() (found []string) {
		pods, err := list(world.ctx, world.namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				found = append(found, pod.Name)
			}
		}
		return found
	}
	var first []string
	waitFor(t, podRunningLimit, "one of the three to run", func() (bool, string) {
		first = running()
		return len(first) > 0, "none"
	})
	for _, name := range names {
		if name != first[0] {
			world.waitRefused(t, name, "card 1")
		}
	}
	if now := running(); len(now) != 1 {
		t.Fatalf("%v run on one card", now)
	}
	world.checkViews(t, first[0])
	world.remove(t, first[0])
	waitFor(t, podRunningLimit, "the next to run", func() (bool, string) {
		now := running()
		return len(now) == 1, strings.Join(now, ", ")
	})
}
