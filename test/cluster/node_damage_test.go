package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An init container cannot be identified without the checkpoint, so it does not start.
func TestNodeWithACorruptCheckpoint(t *testing.T) {
	proxy := startResourcesProxy(t, realNode(t))
	world := newNodeWorld(t, v100s(2), "--pod-resources-socket", proxy.socket)
	// The checkpoint is overwritten while the plugin waits for PodResources.
	corrupt := func(builder *PodBuilder, cards ...string) {
		release := proxy.hold()
		pod := world.createBound(t, builder, cards...)
		waitFor(t, podRunningLimit, "kubelet's checkpoint of "+pod.Name, func() (bool, string) {
			text, err := os.ReadFile(world.node.checkpoint())
			return err == nil && strings.Count(string(text), string(pod.UID)) >= len(requestsOf(pod)), string(text)
		})
		if err := os.WriteFile(world.node.checkpoint(), []byte(`{"Data": [[[`), 0o600); err != nil {
			t.Fatal(err)
		}
		release()
	}
	corrupt(world.pod("app").share(30, 4000), "0")
	world.checkViews(t, "app")
	corrupt(world.pod("init").initShare(20, 3000).share(30, 4000), "1", "1")
	// The pod is unknown to the plugin, so only the event of kubelet has the reason.
	waitFor(t, podRunningLimit, "the init container to be rejected", func() (bool, string) {
		said := statusOf(get(world.ctx, t, world.namespace, "init"))
		return strings.Contains(said, "cannot identify the container that kubelet starts"), said
	})
	// Kubelet writes a new checkpoint at its next allocation.
	world.createBound(t, world.pod("next").share(10, 1000), "0")
	world.checkViews(t, "next", "init")
}

func TestNodeWithBrokenRecords(t *testing.T) {
	world := newNodeWorld(t, v100s(4))
	pods := world.runningPods(t, "0", "1", "2")
	world.plugin.kill()
	for i, file := range world.plugin.records() {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		broken := [][]byte{text[:len(text)/2], []byte("\x00\xff garbage"), nil}[i%3]
		if err := os.WriteFile(file, broken, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	world.plugin.startAgain(t)
	broken, _ := filepath.Glob(filepath.Join(world.plugin.recordFolder(), "*.broken"))
	if len(broken) != 3 {
		t.Errorf("%d files were set aside, want 3: %v", len(broken), broken)
	}
	// The shares of the rebuilt records count: a pod cannot have more than the rest of a card.
	world.createBound(t, world.pod("too-much").share(70, 8000), "1")
	world.waitRefused(t, "too-much", world.namespace+"/running-1")
	world.checkUnaffected(t, pods, "3")
}

func TestNodeStateFolderRemovedWhileContainersRun(t *testing.T) {
	world := newNodeWorld(t, v100s(3))
	pods := world.runningPods(t, "0", "1")
	world.plugin.kill()
	if err := os.RemoveAll(world.plugin.path("state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(world.plugin.specFile()); err != nil {
		t.Fatal(err)
	}
	world.plugin.startAgain(t)
	world.checkUnaffected(t, pods, "2")
}

func TestNodeWithAFullDisk(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pods := world.runningPods(t, "0")
	world.plugin.kill()
	full := world.plugin.path("state")
	copied := world.plugin.path("saved")
	if _, err := runTool("cp", "-a", full, copied); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=128k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(full, syscall.MNT_DETACH) })
	if _, err := runTool("cp", "-a", copied+"/.", full); err != nil {
		t.Fatal(err)
	}
	world.plugin.startAgain(t)
	filler := filepath.Join(full, "filler")
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	world.createBound(t, world.pod("waits").share(30, 4000), "1")
	world.waitRefused(t, "waits", "No space left on device")
	// A container that restarts has its record on disk already.
	world.node.killContainer(t, pods[0], "c0")
	world.checkView(t, world.waitRestarted(t, pods[0].Name, 1))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	world.checkViews(t, "waits")
}

func TestNodeWithASlowAndARateLimitingKubelet(t *testing.T) {
	proxy := startResourcesProxy(t, realNode(t))
	world := newNodeWorld(t, v100s(3), "--pod-resources-socket", proxy.socket)
	proxy.delay.Store(int64(2 * time.Second))
	world.createBound(t, world.pod("slow").share(30, 4000), "0")
	world.checkViews(t, "slow")
	proxy.delay.Store(0)

	// PodResources fails so often that the plugin must use the checkpoint.
	proxy.exhausted.Store(true)
	for i := range 6 {
		world.createBound(t, world.pod(fmt.Sprint("exhausted-", i)).share(10, 1000), fmt.Sprint(i%3))
	}
	for i := range 6 {
		world.checkViews(t, fmt.Sprint("exhausted-", i))
	}
	if proxy.refused.Load() == 0 {
		t.Error("the plugin made no call while kubelet rejected calls")
	}
	proxy.exhausted.Store(false)

	// Kubelet does not respond.
	proxy.delay.Store(int64(time.Minute))
	world.createBound(t, world.pod("silent").share(30, 4000), "1")
	world.checkViews(t, "silent")
	proxy.delay.Store(0)
}
