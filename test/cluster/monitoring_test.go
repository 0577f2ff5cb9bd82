package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	extenderJob = "mgpu-extender"
	pluginJob   = "mgpu-device-plugin"
	// Names in Kubernetes have no such characters; a record on disk may.
	hostilePod = "p\"} 1\n# HELP x\\ \u202e<b>{{.}}</b>"
)

// MonitoredWorld is an extender and a device plugin that a Prometheus scrapes.
type MonitoredWorld struct {
	*PluginWorld
	extender   *Extender
	plugin     *DevicePlugin
	prometheus *Prometheus
}

// newMonitoredWorld returns a world in which as many metrics as possible have series: the extender makes its
// certificates and has bound pods and rejected others, and the plugin has a share, and an MPS daemon.
func newMonitoredWorld(t *testing.T) *MonitoredWorld {
	t.Helper()
	prometheusProgram(t, "prometheus")
	world := &MonitoredWorld{PluginWorld: newPluginWorld(t)}
	world.prepare(t)
	world.startPluginWithShare(t)
	world.startExtender(t)
	world.prometheus = startPrometheus(t, deployPath("chart", "monitoring", "alerts.yaml"), map[string]int{
		extenderJob: world.extender.metricsPort, pluginJob: world.plugin.port})
	return world
}

func (w *MonitoredWorld) startExtender(t *testing.T) {
	t.Helper()
	emptySecret(w.ctx, t)
	w.extender = plane.extenderOn(t, "https", nil, secretFlags()...)
	w.extender.start(t)
	w.extender.waitReady(t)
	certificate := secretFiles(t, readSecret(w.ctx, t))
	plane.createNode(w.ctx, t, "monitored", 2)
	w.extender.waitNodes(t, 3)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", extenderURL: w.extender.url(),
		tls: map[string]string{"caFile": filepath.Join(filepath.Dir(certificate.certificate), "ca.crt"),
			"certFile": certificate.certificate, "keyFile": certificate.key}})
	// 40 % of each of the three cards are left. The node of the plugin has a taint.
	namespace := newNamespace(w.ctx, t)
	for _, name := range []string{"first", "second", "third"} {
		create(w.ctx, t, newPod(namespace, name).share(60, 1024))
		waitBound(w.ctx, t, namespace, name)
	}
	create(w.ctx, t, newPod(namespace, "waits").share(70, 1024))
	waitPending(w.ctx, t, namespace, "waits", "node(s) had no single card with enough free mgpu-core")
	refuseAnotherHost(t, w.extender.metricsPort)
}

// refuseAnotherHost sends a request whose Host header is not accepted, which is counted.
func refuseAnotherHost(t *testing.T, port int) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "example.com"
	if status, body, err := read(http.DefaultClient.Do(request)); err != nil || status != http.StatusMisdirectedRequest {
		t.Fatalf("a request for another host: %d %s %v", status, body, err)
	}
}

func (w *MonitoredWorld) startPluginWithShare(t *testing.T) {
	t.Helper()
	control := mpsControlBinary(t)
	// The path of a socket has at most 107 bytes.
	run, err := os.MkdirTemp("", "mps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	w.plugin = w.newPlugin(t, w.podToken(t, w.own), "--isolation", "mps", "--mps-control", control, "--run-dir", run)
	cards := v100s(2)
	cards[1].Model = "a\"b\\c} <b> \u202e" + strings.Repeat("x", 70)
	uid := w.ownedPod(t)
	cards[0].Processes = []TestProcess{{Pid: processInPod(t, uid), MemoryMiB: 100, SMPercent: 20}}
	w.plugin.writeCards(t, cards)
	w.plugin.writeRecord(t, hostilePod, uid)
	w.plugin.start(t)
	waitFor(t, time.Minute, "the plugin to measure its cards", func() (bool, string) {
		_, text, err := w.plugin.get("/metrics")
		metrics := readMetrics(text)
		return err == nil && metrics.with("mgpu_container_processes") == 1 && metrics.with("mgpu_mps_up") > 0,
			fmt.Sprint(err, w.plugin.logText())
	})
	refuseAnotherHost(t, w.plugin.port)
}

// ownedPod returns the UID of a pod of a Deployment on the node of the plugin, whose container has the share.
func (w *MonitoredWorld) ownedPod(t *testing.T) string {
	t.Helper()
	pod := create(w.ctx, t, newPod("kube-system", "owned").container("app", "", "").onNode(w.own).ownedBy("web"))
	t.Cleanup(func() { deleteNow(w.ctx, t, pod.Namespace, pod.Name) })
	return string(pod.UID)
}

// processInPod returns the ID of a process in a cgroup such as kubelet makes for a container of the pod.
func processInPod(t *testing.T, uid string) int {
	t.Helper()
	root := "/sys/fs/cgroup/pids" // cgroup v1
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	top, err := os.MkdirTemp(root, "mgpu-test")
	if err != nil {
		t.Skip("a cgroup cannot be created: ", err)
	}
	pod := filepath.Join(top, "pod"+uid)
	container := filepath.Join(pod, strings.Repeat("a", 64))
	t.Cleanup(func() {
		for _, folder := range []string{container, pod, top} {
			_ = os.Remove(folder)
		}
	})
	if err := os.MkdirAll(container, 0o755); err != nil {
		t.Fatal(err)
	}
	process, err := startProcess("sleep", filepath.Join(t.TempDir(), "log"), "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	pid := process.command.Process.Pid
	if err := os.WriteFile(filepath.Join(container, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	return pid
}

// writeRecord writes the record of a container with a share of card 0. The plugin has not started yet.
func (p *DevicePlugin) writeRecord(t *testing.T, pod, uid string) {
	t.Helper()
	id := fmt.Sprintf("%x", sha256.Sum256([]byte("c0")))[:16] + "-a"
	text, err := json.Marshal(map[string]any{"version": 1, "allocation": id, "devices": []string{"c0"},
		"owner": map[string]any{"namespace": "monitored", "pod": pod, "uid": uid, "container": "app", "kind": "app",
			"position": 0},
		"cards": []any{map[string]any{"index": 0, "uuid": v100(0).UUID, "core": 40, "memoryMiB": 8000}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(p.recordFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.recordFolder(), id+".json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPrometheusReadsEveryMetricOfTheirPage(t *testing.T) {
	world := newMonitoredWorld(t)
	t.Run("TheTablesAreComplete", world.checkTables)
	t.Run("QueriesOfTheDashboardReturnSeries", world.checkDashboard)
	t.Run("TheQueryOfTheAccountOfUseReturnsSeries", world.checkUseQuery)
	t.Run("RulesHaveSeries", world.checkRules)
	t.Run("TheAllocationIsThatOfTheInspection", world.checkAllocation)
	t.Run("AHostileNameIsOneLabel", world.checkHostileName)
	t.Run("ScrapesAreWithoutProblems", world.checkScrapes)
}

// --- tables --------------------------------------------------------------------------------------

// MetricRow is a row of a table in deploy/METRICS.md.
type MetricRow struct{ name, kind, labels, series, meaning string }

// metricRows returns the rows of the tables by program, which are the headings.
func metricRows(t *testing.T) map[string][]MetricRow {
	t.Helper()
	text, err := os.ReadFile(deployPath("METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, program := map[string][]MetricRow{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if hashes, heading, found := strings.Cut(line, "# "); found && strings.Trim(hashes, "#") == "" {
			program = heading
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if program != extenderJob && program != pluginJob || !regexp.MustCompile("^\\| `(mgpu|process)_").MatchString(line) {
			continue
		}
		if len(cells) != 5 {
			t.Fatalf("the row has %d cells, want 5: %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[program] = append(rows[program], MetricRow{strings.Trim(cells[0], "`"), cells[1],
			strings.ReplaceAll(cells[2], "`", ""), cells[3], cells[4]})
	}
	return rows
}

func (r MetricRow) String() string {
	labels := ""
	if r.labels != "" {
		labels = "`" + strings.ReplaceAll(r.labels, ", ", "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", r.name, r.kind, labels, r.series, r.meaning)
}

func (w *MonitoredWorld) checkTables(t *testing.T) {
	tables := metricRows(t)
	for _, job := range []string{extenderJob, pluginJob} {
		rows, seen := tables[job], w.waitScraped(t, job, tables[job])
		for _, row := range rows {
			got, found := seen[row.name]
			// The tests TestNodeLibrary have these.
			if !found && strings.HasSuffix(row.series, " that the library limits") {
				continue
			}
			if !found {
				t.Errorf("%s has no metric %s", job, row.name)
				continue
			}
			delete(seen, row.name)
			series := got.series
			if got.series = row.series; got != row {
				t.Errorf("the row of %s is\n%s\nwant\n%s", job, row, got)
			}
			if limit := seriesBound(t, row); number(t, series) > limit {
				t.Errorf("%s has %s series, want at most %d", row.name, series, limit)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			t.Errorf("the table of %s has no row\n%s", job, seen[name])
		}
	}
}

// waitScraped returns the metrics of a job once it has those of all rows, such as those that need a first sample.
func (w *MonitoredWorld) waitScraped(t *testing.T, job string, rows []MetricRow) map[string]MetricRow {
	t.Helper()
	var seen map[string]MetricRow
	_ = poll(time.Minute, "the metrics of "+job, func() (bool, string) {
		seen = w.scraped(t, job)
		return !slices.ContainsFunc(rows, func(row MetricRow) bool { return seen[row.name].name == "" }), ""
	})
	return seen
}

// scraped returns what Prometheus knows about the metrics of a job. A row has the number of series.
func (w *MonitoredWorld) scraped(t *testing.T, job string) map[string]MetricRow {
	t.Helper()
	rows := map[string]MetricRow{}
	for _, one := range w.prometheus.metadataOf(t, job) {
		rows[one.Metric] = MetricRow{name: one.Metric, kind: one.Type, meaning: one.Help}
	}
	labels, count := map[string]map[string]bool{}, map[string]int{}
	for _, series := range w.prometheus.seriesOf(t, job) {
		name := series["__name__"]
		if part := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); rows[part].kind == "histogram" {
			name = part
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		count[name]++
		for label := range series {
			labels[name][label] = true
		}
	}
	for name, row := range rows {
		for _, own := range []string{"__name__", "job", "instance", "le"} {
			delete(labels[name], own)
		}
		row.labels = strings.Join(slices.Sorted(maps.Keys(labels[name])), ", ")
		row.series = fmt.Sprint(count[name])
		rows[name] = row
	}
	return rows
}

// seriesBound returns the bound of a row for the plugin of this test: two cards, and one share.
func seriesBound(t *testing.T, row MetricRow) int {
	t.Helper()
	if bound, found := map[string]int{"cards": 2, "shares": 1}[row.series]; found {
		return bound
	}
	return number(t, row.series)
}

func number(t *testing.T, text string) int {
	t.Helper()
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the bound of series is %q, want a number, cards or shares", text)
	}
	return value
}

// --- queries -------------------------------------------------------------------------------------

// dashboardQueries returns the expressions of the dashboard by the title of their panel.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(deployPath("chart", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("the panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title],
				strings.NewReplacer("$node", ".*", "$namespace", ".*").Replace(target.Expr))
		}
	}
	for _, variable := range dashboard.Templating.List {
		if metric, found := strings.CutPrefix(variable.Definition, "label_values("); found {
			metric, label, _ := strings.Cut(strings.TrimSuffix(metric, ")"), ", ")
			queries["variable "+variable.Name] = []string{fmt.Sprintf(`%s{%s!=""}`, metric, label)}
		}
	}
	return queries
}

func (w *MonitoredWorld) waitSeries(t *testing.T, what, expression string) {
	t.Helper()
	err := poll(time.Minute, what, func() (bool, string) {
		series, err := w.prometheus.query(expression)
		if err != nil {
			t.Fatal(err)
		}
		return len(series) > 0, "no series"
	})
	if err != nil {
		t.Errorf("%s: %s: %v", what, expression, err)
	}
}

func (w *MonitoredWorld) checkDashboard(t *testing.T) {
	queries := dashboardQueries(t)
	if len(queries) < 30 {
		t.Fatalf("the dashboard has queries in %d panels", len(queries))
	}
	for _, title := range slices.Sorted(maps.Keys(queries)) {
		for _, expression := range queries[title] {
			if strings.Contains(expression, "$") {
				t.Errorf("%s: %s has a variable that this test does not know", title, expression)
			}
			w.waitSeries(t, title, expression)
		}
	}
}

func (w *MonitoredWorld) checkUseQuery(t *testing.T) {
	text, err := os.ReadFile(deployPath("METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	query := regexp.MustCompile("(?s)```\n(sum by .*?)```").FindStringSubmatch(string(text))
	if query == nil {
		t.Fatal("deploy/METRICS.md has no query of the use by owner")
	}
	ofDeployment := ` and on (owner_kind, owner) mgpu_container_owner_info{owner_kind="Deployment", owner="web"}`
	w.waitSeries(t, "card hours by owner", "("+query[1]+") > 0"+ofDeployment)
}

// A rule of a healthy cluster returns nothing, but what it compares has series.
func (w *MonitoredWorld) checkRules(t *testing.T) {
	text, err := os.ReadFile(deployPath("chart", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	comparison := regexp.MustCompile(` (==|>|<) [0-9 *]+$`)
	for _, rule := range file.Groups[0].Rules {
		if _, err := w.prometheus.query(rule.Expr); err != nil {
			t.Error(err)
		}
		if !comparison.MatchString(rule.Expr) {
			t.Errorf("%s: %s does not end with a comparison", rule.Alert, rule.Expr)
		}
		w.waitSeries(t, rule.Alert, comparison.ReplaceAllString(rule.Expr, ""))
	}
	w.waitSeries(t, "the pod that waits", `ALERTS{alertname="MGPUPodsWaitForFragmentation",alertstate="pending"}`)
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := w.prometheus.get("rules", nil, &rules); err != nil || len(rules.Groups) != len(file.Groups) {
		t.Fatalf("%d groups of rules, %v", len(rules.Groups), err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				t.Errorf("the rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
}

func (w *MonitoredWorld) checkAllocation(t *testing.T) {
	_, body, err := w.extender.get("/inspect/cluster")
	if err != nil {
		t.Fatal(err)
	}
	var view struct {
		Totals struct {
			Cards           int
			Core, MemoryMiB struct{ Capacity, Used, Free float64 }
		}
	}
	if err := json.Unmarshal([]byte(body), &view); err != nil {
		t.Fatal(err)
	}
	totals, metrics := view.Totals, w.extender.metrics(t)
	for name, want := range map[string]float64{
		"mgpu_extender_gpu_allocation_ratio":    totals.Core.Used / totals.Core.Capacity,
		"mgpu_extender_memory_allocation_ratio": totals.MemoryMiB.Used / totals.MemoryMiB.Capacity,
		"mgpu_extender_cards":                   float64(totals.Cards),
		"mgpu_extender_gpu_nodes":               3,
		// Each card of two nodes has a pod, and no card of the third.
		"mgpu_extender_gpu_node_fragmentation_ratio": 2.0 / 3,
	} {
		if got := metrics.with(name); math.Abs(got-want) > 1e-9 || want == 0 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if free := metrics.with("mgpu_extender_compute_cards", `state="free"`); free != totals.Core.Free/100 {
		t.Errorf("%v cards are free, want %v percent", free, totals.Core.Free)
	}
}

func (w *MonitoredWorld) checkHostileName(t *testing.T) {
	const limit = "mgpu_container_core_limit_ratio"
	w.waitSeries(t, "one container, of the hostile pod", fmt.Sprintf("%s{pod=%q} and on() count(%s) == 1", limit, hostilePod, limit))
}

// promtool also checks the names, types and help texts.
func (w *MonitoredWorld) checkScrapes(t *testing.T) {
	for name, get := range map[string]func(string) (int, string, error){extenderJob: w.extender.get, pluginJob: w.plugin.get} {
		_, text, err := get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(prometheusProgram(t, "promtool"), "check", "metrics")
		command.Stdin = strings.NewReader(text)
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool check metrics of %s: %v\n%s", name, err, output)
		}
	}
}

// --- rules ---------------------------------------------------------------------------------------

func TestAlertsFireAsTheirTestsSay(t *testing.T) {
	promtool, folder := prometheusProgram(t, "promtool"), t.TempDir()
	for _, path := range []string{deployPath("chart", "monitoring", "alerts.yaml"),
		repositoryPath("test", "deploy", "alerts_test.yaml")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(path)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		command := exec.Command(promtool, arguments...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
	}
}

// An alert without a case in which it fires would be one that nobody has tried.
func TestEachAlertHasATestAndARow(t *testing.T) {
	page, err := os.ReadFile(deployPath("METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(deployPath("chart", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(repositoryPath("test", "deploy", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^  - alert: (\w+)$(?:.*\n)*?    labels: \{severity: (\w+)\}`).
		FindAllStringSubmatch(string(rules), -1)
	if rows := strings.Count(string(page), "\n| `MGPU"); len(alerts) == 0 || rows != len(alerts) {
		t.Errorf("there are %d alerts, and %d rows in deploy/METRICS.md", len(alerts), rows)
	}
	for _, alert := range alerts {
		if row := fmt.Sprintf("| `%s` | %s |", alert[1], alert[2]); !strings.Contains(string(page), row) {
			t.Errorf("deploy/METRICS.md has no row %s", row)
		}
		if !regexp.MustCompile(`exp_samples:\n(?:.*\n)*? *- \{labels: '[^']*alertname="` + alert[1] + `"`).Match(tests) {
			t.Errorf("no test expects that %s fires", alert[1])
		}
	}
}
