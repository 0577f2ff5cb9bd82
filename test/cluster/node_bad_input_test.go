package cluster

import (
	"strings"
	"testing"
	"time"
)

// Two device plugins on one node, for example of the chart and of systemd. The last one serves kubelet, and
// the other one says so. What it knows is old once it is the only one, so that it ends and is started again.
func TestNodeTwoDevicePluginsOnOneNode(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	first, second := world.plugin, *world.plugin
	second.start(t)
	t.Cleanup(second.process.Kill)
	second.waitReady(t)
	first.waitNotReady(t, "another process of mgpu-device-plugin has replaced this one")
	world.createBound(t, world.pod("with-two").share(30, 1024), "0")
	world.checkViews(t, "with-two")
	mustEnd(t, second.process)
	waitFor(t, 2*time.Minute, "the first process to end", func() (bool, string) {
		return !first.process.running(), first.process.logTail(3)
	})
	first.startAgain(t)
	world.createBound(t, world.pod("with-one").share(30, 1024), "1")
	world.checkViews(t, "with-one")
}

// Without PodResources the device plugin identifies containers by kubelet's checkpoint. Its log says what is
// missing.
func TestNodeKubeletWithoutPodResources(t *testing.T) {
	world := newNodeWorld(t, v100s(2), "--pod-resources-socket", "/nonexistent/kubelet.sock")
	world.createBound(t, world.pod("share").share(30, 1024), "1")
	world.checkViews(t, "share")
	waitFor(t, 2*time.Minute, "the log to name PodResources", func() (bool, string) {
		text := strings.ReplaceAll(world.plugin.logText(), `\`, "")
		return strings.Contains(text, `PodResources at "/nonexistent/kubelet.sock" did not answer`), text
	})
}

// The device plugin cannot know then whether kubelet still starts containers of a pod that is gone.
func TestNodeKubeletWithoutTheFeatureGateKubeletPodResources(t *testing.T) {
	node := realNode(t)
	if node.minor >= 28 {
		t.Skipf("kubelet 1.%d: its feature gate KubeletPodResources cannot be switched off", node.minor)
	}
	node.restartKubelet(t, "--feature-gates", "KubeletPodResources=false")
	t.Cleanup(func() { node.restartKubelet(t) })
	world := newNodeWorld(t, v100s(1))
	world.createBound(t, world.pod("deleted").wholeCards(1), "0")
	world.checkViews(t, "deleted")
	world.remove(t, "deleted")
	world.createBound(t, world.pod("next").wholeCards(1), "0")
	world.waitRefused(t, "next", world.namespace+"/deleted")
	waitFor(t, podRunningLimit, "the log to say why", func() (bool, string) {
		text := world.plugin.logText()
		return strings.Contains(text, "the shares of ended pods stay in use until kubelet answers"), text
	})
	node.restartKubelet(t)
	world.checkViews(t, "next")
}
