package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// liveWaste returns the row of the container of the Deployment of the monitored world, and the sentences about where
// the numbers come from.
func liveWaste(t *testing.T, words ...string) (row ShownWaste, source string, found bool) {
	t.Helper()
	words = append([]string{"waste", "-A", "--by", "owner", "-o", "json"}, words...)
	output, problems, code := kubectlMgpu(t, adminToken, words...)
	if code != 0 || strings.Contains(problems, "kubectl mgpu:") {
		t.Fatalf("kubectl mgpu %s: exit code %d\n%s%s", strings.Join(words, " "), code, output, problems)
	}
	var of struct{ Source, Since string }
	if err := json.Unmarshal([]byte(output), &of); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, row := range items[ShownWaste](t, output) {
		if row.OwnerKind == "Deployment" && row.Owner == "web" {
			return row, of.Source, of.Since != ""
		}
	}
	return ShownWaste{}, of.Source, false
}

// The container uses 20 % of a card, and was granted 40 %.
func TestWasteOfALiveCluster(t *testing.T) {
	world := newMonitoredWorld(t)
	url := fmt.Sprint("http://127.0.0.1:", world.prometheus.port)
	waitFor(t, 3*time.Minute, "the waste from Prometheus", func() (bool, string) {
		row, source, found := liveWaste(t, "--prometheus-url", url, "--since", "10m")
		if !found || row.GPUHours.WastedPercent == nil || row.Samples < 3 {
			return false, fmt.Sprintf("%+v", row)
		}
		if source != "prometheus" || row.Core.Granted != 40 || row.Memory.Granted != 8000 || row.Memory.Peak == nil ||
			*row.Memory.Peak != 100 || row.Core.P95 == nil || math.Abs(*row.Core.P95-20) > 0.5 ||
			row.Suggested != nil {
			t.Fatalf("from %s: %+v", source, row)
		}
		// Of the first moments a part has no use yet.
		return math.Abs(*row.GPUHours.WastedPercent-50) <= 2, fmt.Sprint(*row.GPUHours.WastedPercent)
	})
	world.waitSeries(t, "the record of charge-back", "namespace:mgpu_granted_card_hours:increase1h > 0")
	output, problems, code := kubectlMgpu(t, adminToken, "waste", "-A")
	if code != 2 || output != "" || !strings.Contains(problems, "set --prometheus-url or $MGPU_PROMETHEUS_URL") {
		t.Errorf("without a Prometheus: exit code %d, %q, %q", code, output, problems)
	}
}

// ShownDrift is a row of kubectl mgpu drift.
type ShownDrift struct{ Node, Kind, Namespace, Pod, Container, UUID, Message, Source string }

func TestDriftOfALiveCluster(t *testing.T) {
	world := newMonitoredWorld(t)
	flags := []string{"-o", "json", "--url", fmt.Sprint("http://127.0.0.1:", world.extender.metricsPort),
		"--plugin-url", fmt.Sprint("http://127.0.0.1:", world.plugin.port)}
	namespace := strings.ToLower(t.Name()) // of the monitored world
	// Counts on each card of the node, where other pods have 60 % of each, and may be on any one of them.
	create(world.ctx, t, newPod(namespace, "by-hand").share(70, 512).onNode("monitored"))
	stranger, err := startProcess("sleep", filepath.Join(t.TempDir(), "log"), "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Kill)
	cards := world.plugin.cards
	cards[1].Processes = []TestProcess{{Pid: stranger.command.Process.Pid, MemoryMiB: 100, SMPercent: 20}}
	world.plugin.writeCards(t, cards)
	waitFor(t, 3*time.Minute, "drifts of the extender and of the plugin", func() (bool, string) {
		output, problems, code := kubectlMgpu(t, adminToken, append([]string{"drift", "-A"}, flags...)...)
		if problems != "" {
			t.Fatalf("exit code %d, %s", code, problems)
		}
		ofExtender, ofPlugin := false, false
		for _, row := range items[ShownDrift](t, output) {
			if row.Kind == "OverfullCard" {
				t.Fatalf("a pod without annotations makes a card overfull: %+v", row)
			}
			ofExtender = ofExtender || row.Kind == "BindingWithoutCards" && row.Pod == "by-hand" && row.Namespace == namespace &&
				row.Node == "monitored" && row.Source == "extender" && strings.HasSuffix(row.Message, "; delete the pod")
			ofPlugin = ofPlugin || row.Kind == "ProcessWithoutShare" && row.Node == world.own && row.UUID == cards[1].UUID &&
				row.Source == "device-plugin"
		}
		return ofExtender && ofPlugin && code == 1, output
	})
	output, problems, code := kubectlMgpu(t, adminToken, append([]string{"drift", "-n", namespace, "none"}, flags...)...)
	if code != 0 || problems != "" || len(items[ShownDrift](t, output)) != 0 {
		t.Errorf("drift of a pod without any: exit code %d, %s%s", code, output, problems)
	}
}
