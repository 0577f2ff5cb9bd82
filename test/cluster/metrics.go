package cluster

import (
	"bufio"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// Metrics are the samples of one response of /metrics, as a map from `name{labels}` to the value.
type Metrics map[string]float64

func (e *Extender) metrics(t testing.TB) Metrics {
	t.Helper()
	_, text, err := e.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return readMetrics(text)
}

func readMetrics(text string) Metrics {
	samples := Metrics{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		split := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || split < 0 {
			continue
		}
		if value, err := strconv.ParseFloat(line[split+1:], 64); err == nil {
			samples[line[:split]] = value
		}
	}
	return samples
}

// with returns the sum of the samples of a metric that have all these labels, such as `verb="bind"`.
func (m Metrics) with(name string, labels ...string) float64 {
	sum := 0.0
	for sample, value := range m {
		if sampleMatches(sample, name, labels) {
			sum += value
		}
	}
	return sum
}

// count returns how many samples of a metric have all these labels.
func (m Metrics) count(name string, labels ...string) int {
	count := 0
	for sample := range m {
		if sampleMatches(sample, name, labels) {
			count++
		}
	}
	return count
}

func sampleMatches(sample, name string, labels []string) bool {
	if sample != name && !strings.HasPrefix(sample, name+"{") {
		return false
	}
	for _, label := range labels {
		if !strings.Contains(sample, label) {
			return false
		}
	}
	return true
}

// percentile computes a percentile of a histogram like histogram_quantile of Prometheus.
func (m Metrics) percentile(name string, share float64, labels ...string) float64 {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for sample, value := range m {
		if sampleMatches(sample, name+"_bucket", labels) {
			_, rest, _ := strings.Cut(sample, `le="`)
			text, _, _ := strings.Cut(rest, `"`)
			bound, err := strconv.ParseFloat(text, 64)
			if err != nil {
				bound = math.Inf(1)
			}
			buckets = append(buckets, bucket{bound, value})
		}
	}
	sort.Slice(buckets, func(i, j int) bool { return buckets[i].bound < buckets[j].bound })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return math.NaN()
	}
	rank := share * buckets[len(buckets)-1].count
	at := sort.Search(len(buckets), func(i int) bool { return buckets[i].count >= rank })
	below := bucket{}
	if at > 0 {
		below = buckets[at-1]
	}
	if math.IsInf(buckets[at].bound, 1) {
		return below.bound
	}
	return below.bound + (buckets[at].bound-below.bound)*(rank-below.count)/(buckets[at].count-below.count)
}

// latencies returns a line for the output of the test.
func (m Metrics) latencies(name, verb string) string {
	label := fmt.Sprintf("verb=%q", verb)
	return fmt.Sprintf("%-10s %6.0f calls, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms", verb,
		m.with(name+"_count", label), 1000*m.percentile(name, 0.5, label),
		1000*m.percentile(name, 0.9, label), 1000*m.percentile(name, 0.99, label))
}

// These are names of the extender's metrics.
const (
	verbSeconds  = "mgpu_extender_verb_duration_seconds"
	bindsTotal   = "mgpu_extender_binds_total"
	touchesTotal = "mgpu_extender_pod_touches_total"
)

// lines returns the samples of a metric that are not 0, sorted.
func (m Metrics) lines(name string) []string {
	var lines []string
	for sample, value := range m {
		if value != 0 && sampleMatches(sample, name, nil) {
			lines = append(lines, fmt.Sprintf("%8.0f  %s", value, sample))
		}
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i][10:] < lines[j][10:] })
	return lines
}
