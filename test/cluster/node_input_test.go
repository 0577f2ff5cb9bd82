package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A plugin with a problem reports it in one sentence and is alive but not ready. It becomes ready when
// the problem is solved.
func TestNodePluginIsNotReadyUntilProblemsAreSolved(t *testing.T) {
	node := realNode(t)
	node.forgetCards(t)
	good := func(plugin *DevicePlugin) { plugin.writeCards(t, v100s(1)) }
	card := "{index: 0, uuid: GPU-a, model: m, memoryMiB: 1000, devices: [/dev/null]}"
	for name, one := range map[string]struct {
		flags []string
		cards string // content of the cards file; empty: a valid one
		want  string
		mend  func(plugin *DevicePlugin)
	}{
		"index twice":     {nil, "cards: [" + card + ", " + strings.Replace(card, "GPU-a", "GPU-b", 1) + "]", "index", good},
		"uuid twice":      {nil, "cards: [" + card + ", " + strings.Replace(card, "index: 0", "index: 1", 1) + "]", "GPU-a", good},
		"zero memory":     {nil, "cards: [" + strings.Replace(card, "1000", "0", 1) + "]", "memoryMiB", good},
		"unknown field":   {nil, "cards: [" + strings.Replace(card, "model", "mode", 1) + "]", "mode", good},
		"not YAML":        {nil, "{[", "cards", good},
		"no kubelet":      {[]string{"--device-plugin-dir", "/nonexistent/folder"}, "", "kubelet.sock", nil},
		"no node object":  {[]string{"--node-name", "no-such-node"}, "", "the Node object, which does not exist", nil},
		"no cards file":   {[]string{"--cards-file", "/nonexistent/cards.yaml"}, "", "/nonexistent/cards.yaml", nil},
		"no NVML library": {[]string{"--cards-file", ""}, "", "libnvidia-ml.so.1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := devicePluginOn(t, node, v100s(1), one.flags...)
			if one.cards != "" {
				plugin.writeCardsText(t, one.cards)
			}
			plugin.start(t)
			plugin.waitNotReady(t, one.want)
			if one.mend != nil {
				one.mend(plugin)
				plugin.waitReady(t)
			}
		})
	}
}

// waitNotReady waits until /readyz, or the log of a program that has ended, contains the sentence.
func (p *DevicePlugin) waitNotReady(t testing.TB, sentence string) {
	t.Helper()
	waitFor(t, 2*time.Minute, "mgpu-device-plugin to say "+sentence, func() (bool, string) {
		if !p.process.running() {
			t.Fatalf("mgpu-device-plugin ended:\n%s", p.process.logTail(10))
		}
		status, body, err := p.get("/readyz")
		alive, _, _ := p.get("/healthz")
		said := strings.Contains(body, sentence) || strings.Contains(p.logText(), sentence)
		return err == nil && status == http.StatusServiceUnavailable && alive == http.StatusOK && said,
			fmt.Sprint(status, " ", body, " ", err, " ", p.process.logTail(3))
	})
}

func TestNodePluginRejectsWrongFlags(t *testing.T) {
	_ = realNode(t)
	kubeconfig := plane.kubeconfig(nodeToken)
	for name, one := range map[string]struct {
		arguments []string
		want      string
	}{
		"unknown flag":       {[]string{"--no-such-flag"}, "no-such-flag"},
		"port out of range":  {[]string{"--metrics-bind-address", "127.0.0.1:70000"}, "metrics-bind-address"},
		"missing kubeconfig": {[]string{"--kubeconfig", "/no/such/file"}, "/no/such/file"},
		"removed flag":       {[]string{"--kubeconfig", kubeconfig, "--injection", "auto"}, "--injection was removed"},
		"relative folder":    {[]string{"--kubeconfig", kubeconfig, "--state-dir", "here"}, "state-dir"},
		"node name":          {[]string{"--kubeconfig", kubeconfig, "--node-name", "Not A Name"}, "Not A Name"},
		"domain":             {[]string{"--kubeconfig", kubeconfig, "--resource-domain", "not a domain"}, "domain"},
	} {
		t.Run(name, func(t *testing.T) { checkStartError(t, pluginBinary(t), one.want, one.arguments...) })
	}
}

// The folder of kubelet's socket may be created after the plugin was started.
func TestNodePluginStartedBeforeKubelet(t *testing.T) {
	world := newNodeWorld(t, v100s(2))
	pods := world.runningPods(t, "0")
	world.plugin.kill()
	world.node.kubelet.Kill()
	_ = os.Remove(devicePluginAt + "/kubelet.sock")
	world.plugin.start(t)
	world.plugin.waitNotReady(t, "kubelet")
	if err := world.node.startKubelet(); err != nil {
		t.Fatal(err)
	}
	world.plugin.waitReady(t)
	world.plugin.waitOffered(t)
	world.checkUnaffected(t, pods, "1")
}
