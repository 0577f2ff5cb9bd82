package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrometheusWorld is an extender that reads a Prometheus, which scrapes it and a device plugin. The plugin has a
// container with a share and a process.
type PrometheusWorld struct {
	*PluginWorld
	extender   *Extender
	plugin     *DevicePlugin
	prometheus *Prometheus
	pod        *corev1.Pod
}

const (
	usedCore, usedMemoryMiB       = 20, 1024 // of the process
	grantedCore, grantedMemoryMiB = 40, 8000 // as in the record
)

func newPrometheusWorld(t *testing.T, namespace string) *PrometheusWorld {
	t.Helper()
	prometheusProgram(t, "prometheus")
	world := &PrometheusWorld{PluginWorld: newPluginWorld(t), prometheus: newPrometheus(t)}
	world.bindPod(t, namespace)
	world.plugin = world.newPlugin(t, world.podToken(t, world.own))
	cards := v100s(2)
	cards[0].Processes = []TestProcess{{Pid: processInPod(t, string(world.pod.UID)), MemoryMiB: usedMemoryMiB, SMPercent: usedCore}}
	world.plugin.writeCards(t, cards)
	world.writeRecord(t)
	world.plugin.start(t)
	waitFor(t, time.Minute, "the plugin to measure the container", func() (bool, string) {
		_, text, err := world.plugin.get("/metrics")
		return err == nil && readMetrics(text).with("mgpu_container_processes") == 1, fmt.Sprint(err, world.plugin.logText())
	})
	world.extender = plane.extenderOn(t, "http", http.DefaultClient, "--prometheus-url", world.prometheus.url())
	world.extender.start(t)
	world.extender.waitReady(t)
	return world
}

// bindPod binds a pod to card 0 of the plugin's node, as a scheduler with the extender does.
func (w *PrometheusWorld) bindPod(t *testing.T, namespace string) {
	t.Helper()
	if err := plane.createNamespace(w.ctx, namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(namespace) })
	create(w.ctx, t, newPod(namespace, "train").scheduler("nobody").share(grantedCore, grantedMemoryMiB))
	w.pod = get(w.ctx, t, namespace, "train")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: w.pod.Name, Namespace: namespace, UID: w.pod.UID,
		Annotations: map[string]string{assumedKey: "true", indexKeyPrefix + "c0": "0"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: w.own}}
	if err := plane.admin.CoreV1().Pods(namespace).Bind(w.ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// writeRecord writes the record of the pod's container, which the plugin reads when it starts.
func (w *PrometheusWorld) writeRecord(t *testing.T) {
	t.Helper()
	id := fmt.Sprintf("%x", sha256.Sum256([]byte("c0")))[:16] + "-a"
	text, err := json.Marshal(map[string]any{"version": 1, "allocation": id, "devices": []string{"c0"},
		"owner": map[string]any{"namespace": w.pod.Namespace, "pod": w.pod.Name, "uid": w.pod.UID, "container": "c0",
			"kind": "app", "position": 0},
		"cards": []any{map[string]any{"index": 0, "uuid": v100(0).UUID, "core": grantedCore, "memoryMiB": grantedMemoryMiB}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(w.plugin.recordFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.plugin.recordFolder(), id+".json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *PrometheusWorld) startPrometheus(t *testing.T) {
	t.Helper()
	w.prometheus.start(t, deployPath("chart", "monitoring", "alerts.yaml"), map[string]int{
		extenderJob: w.extender.metricsPort, pluginJob: w.plugin.port})
}

// The page shows the history of Prometheus, and what the extender has itself before and after it.
func TestWebShowsTheHistoryOfPrometheus(t *testing.T) {
	world := newPrometheusWorld(t, "speech")
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.click("#history summary")
	page.waitText("#history-source", "Since this extender started at")
	page.waitText("#history-source", "The history of Prometheus cannot be shown: Prometheus does not answer")

	world.startPrometheus(t)
	page.waitText("#history-source", "From Prometheus, the last 24 hours, every 60 s.")
	page.click("#history-table summary")
	// Compute and memory as /inspect has them; one of two cards is used, to 20 % and 1 GiB; 60 of 260 % are free on a used card; two cards are free, one node is
	// partly used, and one pod is bound.
	totals := inspect[inspectedCluster](t, world.extender, "cluster").Totals
	want := strings.Join([]string{percentOf(totals.Core), percentOf(totals.MemoryMiB), "10", "1.6", "23.1", "2", "1", "1"}, " ")
	page.wait("the last row to be "+want, fmt.Sprintf("(%s) === %q", lastHistoryRow, want), lastHistoryRow)

	page.waitText("[data-total=core] .used", "used 10 %")
	page.waitText("[data-total=memory] .used", "used 1.6 %")

	world.prometheus.process.Kill()
	page.wait("what is used not to be known", `!document.querySelector('.used')`, `document.getElementById('granted').innerText`)
	page.waitText("#history-source", "Since this extender started at")
	page.waitText("#history-source", "The history of Prometheus cannot be shown: Prometheus does not answer")
	page.waitLive()
}

const lastHistoryRow = `[...document.querySelector('#history-table tbody tr:last-child').cells].slice(1).map((cell) => cell.innerText).join(' ')`

// percentOf is what is used of an amount, as the page writes it.
func percentOf(amount inspectedAmount) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*float64(amount.Used)/float64(amount.Capacity)), ".0")
}

func TestWebShowsWhatAPodUses(t *testing.T) {
	world := newPrometheusWorld(t, "vision")
	world.startPrometheus(t)
	page := world.extender.openPage(t, "/web/#/pod/"+world.pod.Namespace+"/"+world.pod.Name,
		window(1100, 860, 1, false), colorScheme("dark"))
	page.waitLive()
	page.waitText("#detail-title", "Pod "+world.pod.Namespace+"/train")
	page.waitText("#detail-body .use-table", "c0")
	page.waitText("#detail-body .use-table", "20 % of 40 %")
	page.waitText("#detail-body .use-table", "1 GiB of 7.8 GiB")
	page.waitText("#detail-body", "From Prometheus, at ")
	page.waitText("#detail-body", "Policy for nodes/cards")
	page.screenshot("page-pod.png")
	width := eval[string](page, `document.querySelector('.use-bar > span').style.width`)
	if width != "50%" {
		t.Errorf("the bar of the compute has the width %q, want half", width)
	}

	// It changes without a reload.
	cards := v100s(2)
	cards[0].Processes = []TestProcess{{Pid: processInPod(t, string(world.pod.UID)), MemoryMiB: 2 * usedMemoryMiB, SMPercent: usedCore}}
	world.plugin.writeCards(t, cards)
	page.waitText("#detail-body .use-table", "2 GiB of 7.8 GiB")

	world.prometheus.process.Kill()
	page.waitText("#detail-body", "The use cannot be shown: Prometheus does not answer")

	status, body, err := world.extender.get(`/web/use?namespace=a&pod=b%22%7D+or+vector(1)`)
	if err != nil || status != http.StatusBadRequest || !strings.Contains(body, "is not the name of a pod") {
		t.Errorf("a name that is none: %d %s %v", status, body, err)
	}
}
