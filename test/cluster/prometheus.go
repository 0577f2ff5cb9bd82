package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Prometheus is the real Prometheus of Debian.
type Prometheus struct {
	process *Process
	port    int
}

func prometheusProgram(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv("MGPU_PROMETHEUS_FOLDER")
	if folder == "" {
		t.Skip("MGPU_PROMETHEUS_FOLDER is not set; test/run.sh cluster sets it")
	}
	return filepath.Join(folder, name)
}

// newPrometheus returns a Prometheus that has not been started.
func newPrometheus(t testing.TB) *Prometheus {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return &Prometheus{port: port}
}

func (p *Prometheus) url() string { return fmt.Sprint("http://127.0.0.1:", p.port) }

// startPrometheus starts a Prometheus that scrapes each job at its port every second, and evaluates the rules.
func startPrometheus(t testing.TB, rules string, ports map[string]int) *Prometheus {
	t.Helper()
	prometheus := newPrometheus(t)
	prometheus.start(t, rules, ports)
	return prometheus
}

func (p *Prometheus) start(t testing.TB, rules string, ports map[string]int) {
	t.Helper()
	binary, folder := prometheusProgram(t, "prometheus"), t.TempDir()
	jobs := []any{}
	for job, target := range ports {
		jobs = append(jobs, map[string]any{"job_name": job, "static_configs": []any{
			map[string]any{"targets": []string{fmt.Sprint("127.0.0.1:", target)}}}})
	}
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "scrape_configs": jobs,
		"global": map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}})
	if err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(folder, "prometheus.yaml") // JSON is YAML
	if err := os.WriteFile(configuration, text, 0o644); err != nil {
		t.Fatal(err)
	}
	process, err := startProcess("prometheus", filepath.Join(folder, "log"), binary, "--config.file", configuration,
		"--storage.tsdb.path", filepath.Join(folder, "data"), "--web.listen-address", fmt.Sprint("127.0.0.1:", p.port))
	if err != nil {
		t.Fatal(err)
	}
	process.endWithTest(t)
	p.process = process
	waitFor(t, 2*time.Minute, "Prometheus to scrape all jobs", func() (bool, string) {
		if !process.running() {
			t.Fatalf("Prometheus ended:\n%s", process.logTail(10))
		}
		up, err := p.query("up == 1")
		return err == nil && len(up) == len(ports), fmt.Sprint(up, err)
	})
}

// get reads the data of a path of the HTTP API.
func (p *Prometheus) get(path string, parameters url.Values, data any) error {
	_, body, err := read(http.Get(fmt.Sprintf("%s/api/v1/%s?%s", p.url(), path, parameters.Encode())))
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// query returns the labels of the series of an expression.
func (p *Prometheus) query(expression string) ([]map[string]string, error) {
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	if err := p.get("query", url.Values{"query": {expression}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	var series []map[string]string
	for _, one := range data.Result {
		series = append(series, one.Metric)
	}
	return series, nil
}

// seriesOf returns the labels of all series of a job.
func (p *Prometheus) seriesOf(t testing.TB, job string) []map[string]string {
	t.Helper()
	var series []map[string]string
	if err := p.get("series", url.Values{"match[]": {fmt.Sprintf("{job=%q}", job)}}, &series); err != nil {
		t.Fatal(err)
	}
	return series
}

// ScrapedMetric is what a program says about a metric.
type ScrapedMetric struct{ Metric, Type, Help string }

// metadataOf returns what the program of a job says about its metrics.
func (p *Prometheus) metadataOf(t testing.TB, job string) []ScrapedMetric {
	t.Helper()
	var metadata []ScrapedMetric
	target := url.Values{"match_target": {fmt.Sprintf("{job=%q}", job)}}
	if err := p.get("targets/metadata", target, &metadata); err != nil {
		t.Fatal(err)
	}
	return metadata
}
