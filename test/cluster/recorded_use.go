package cluster

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordedInterval is the time between two scrapes.
const recordedInterval = 15

// RecordedSample is what one scrape of a device plugin says about a share.
type RecordedSample struct {
	at        int64
	used      float64 // of the card
	busy      bool    // otherwise the driver lists no value
	processes int
	memoryMiB int
}

// RecordedShare is a container on a card, with the samples of a time in which it held its share.
type RecordedShare struct {
	namespace, pod, container, card string
	core                            float64 // of the card
	memoryMiB                       int
	samples                         []RecordedSample
	jobs                            []string // that scrape it
	movedAt                         int64    // from then on, the plugin has another address
	renamedBefore                   bool     // until it moved, the scrape job had no honor_labels
	ownerKind, owner                string
	counted                         float64  // of the card, by the counters of the plugin; 0: it has none
	renamed                         []string // the jobs of these that have no honor_labels
}

// hold adds samples from one time to another one. The use is between 0 and most, and changes every few minutes; it is
// idle for a part of the phases.
func (s *RecordedShare) hold(random *rand.Rand, from, to int64, most, idle float64) {
	value, busy := 0.0, true
	for at := from; at < to; at += recordedInterval {
		if random.Float64() < 0.1 {
			busy, value = random.Float64() >= idle, most*random.Float64()
		}
		sample := RecordedSample{at: at, busy: busy, processes: 1, memoryMiB: s.memoryMiB / 2}
		if busy {
			sample.used, sample.memoryMiB = value, s.memoryMiB/2+int(value*float64(s.memoryMiB)/4)
		}
		s.samples = append(s.samples, sample)
	}
}

// rest adds samples without processes.
func (s *RecordedShare) rest(from, to int64) {
	for at := from; at < to; at += recordedInterval {
		s.samples = append(s.samples, RecordedSample{at: at})
	}
}

// ReplayedUse is the exact result for the samples: each one holds until the next one.
type ReplayedUse struct {
	grantedHours, usedHours float64
	corePercentP95          float64
	peakMiB                 int
}

func (s *RecordedShare) replay() ReplayedUse {
	var replayed ReplayedUse
	values := []float64{}
	for _, sample := range s.samples {
		replayed.grantedHours += s.core * recordedInterval / 3600
		replayed.usedHours += sample.used * recordedInterval / 3600
		replayed.peakMiB = max(replayed.peakMiB, sample.memoryMiB)
		values = append(values, sample.used)
	}
	slices.Sort(values)
	// The percentile of Prometheus, numpy and others: linear between the two nearest values.
	rank := 0.95 * float64(len(values)-1)
	lower := values[int(rank)]
	upper := values[min(int(rank)+1, len(values)-1)]
	replayed.corePercentP95 = 100 * (lower + (upper-lower)*(rank-math.Floor(rank)))
	if s.counted > 0 {
		replayed.usedHours = replayed.grantedHours / s.core * s.counted
		replayed.corePercentP95 = max(replayed.corePercentP95, 100*s.counted)
	}
	return replayed
}

// labels are those of the share, and of the target, whose labels have precedence without honor_labels.
func (s *RecordedShare) labels(job, instance string, honor bool, more map[string]string) string {
	of := map[string]string{"namespace": s.namespace, "pod": s.pod, "container": s.container}
	all := map[string]string{"job": job, "instance": instance, "index": "0", "uuid": s.card}
	for name, value := range of {
		if honor {
			all[name] = value
		} else {
			all[name], all["exported_"+name] = "of-the-target", value
		}
	}
	maps.Copy(all, more)
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(all[name])
		labels = append(labels, fmt.Sprintf("%s=\"%s\"", name, value))
	}
	return "{" + strings.Join(labels, ",") + "}"
}

const recordedMiB = 1 << 20

// recordedMetrics are the metrics of the device plugin that have a value for a sample.
var recordedMetrics = map[string]func(s *RecordedShare, sample RecordedSample) (float64, bool){
	"mgpu_container_core_limit_ratio": func(s *RecordedShare, _ RecordedSample) (float64, bool) { return s.core, true },
	"mgpu_container_memory_limit_bytes": func(s *RecordedShare, _ RecordedSample) (float64, bool) {
		return float64(s.memoryMiB) * recordedMiB, true
	},
	"mgpu_container_sm_utilization_ratio": func(_ *RecordedShare, sample RecordedSample) (float64, bool) {
		return sample.used, sample.busy
	},
	"mgpu_container_memory_used_bytes": func(_ *RecordedShare, sample RecordedSample) (float64, bool) {
		return float64(sample.memoryMiB) * recordedMiB, true
	},
	"mgpu_container_processes": func(_ *RecordedShare, sample RecordedSample) (float64, bool) {
		return float64(sample.processes), true
	},
	"mgpu_container_owner_info": func(s *RecordedShare, _ RecordedSample) (float64, bool) { return 1, s.owner != "" },
	"mgpu_container_granted_card_seconds": func(s *RecordedShare, sample RecordedSample) (float64, bool) {
		return s.core * float64(sample.at-s.samples[0].at), s.counted > 0
	},
	"mgpu_container_used_card_seconds": func(s *RecordedShare, sample RecordedSample) (float64, bool) {
		return s.counted * float64(sample.at-s.samples[0].at), s.counted > 0
	},
}

// writeRecordedUse writes the samples as a Prometheus would have stored them.
func writeRecordedUse(t *testing.T, path string, shares []*RecordedShare, honor bool) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewWriter(file)
	for _, metric := range slices.Sorted(maps.Keys(recordedMetrics)) {
		name, kind := metric, "gauge"
		if strings.HasSuffix(metric, "_seconds") {
			name, kind = metric+"_total", "counter"
		}
		fmt.Fprintf(text, "# TYPE %s %s\n", metric, kind)
		for _, share := range shares {
			var more map[string]string
			if name == "mgpu_container_owner_info" {
				more = map[string]string{"owner_kind": share.ownerKind, "owner": share.owner}
			}
			for _, job := range share.jobs {
				honors := honor && !slices.Contains(share.renamed, job)
				first := share.labels(job, "10.0.0.1:9801", honors && !share.renamedBefore, more)
				second := share.labels(job, "10.0.0.2:9801", honors, more)
				for _, sample := range share.samples {
					labels := first
					if share.movedAt > 0 && sample.at >= share.movedAt {
						labels = second
					}
					if value, has := recordedMetrics[metric](share, sample); has {
						fmt.Fprintf(text, "%s%s %v %d\n", name, labels, value, sample.at)
					}
				}
			}
		}
	}
	writeRecordedCards(text, shares)
	fmt.Fprintln(text, "# EOF")
	if err := text.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// writeRecordedCards writes the use of each card by all of its shares.
func writeRecordedCards(text *bufio.Writer, shares []*RecordedShare) {
	cards := map[string]map[int64]float64{}
	for _, share := range shares {
		if cards[share.card] == nil {
			cards[share.card] = map[int64]float64{}
		}
		for _, sample := range share.samples {
			cards[share.card][sample.at] += sample.used
		}
	}
	const metric = "mgpu_card_sm_utilization_ratio"
	fmt.Fprintf(text, "# TYPE %s gauge\n", metric)
	for _, card := range slices.Sorted(maps.Keys(cards)) {
		for _, at := range slices.Sorted(maps.Keys(cards[card])) {
			fmt.Fprintf(text, "%s{index=\"0\",job=\"mgpu\",node=\"n\",uuid=\"%s\"} %v %d\n", metric, card, cards[card][at], at)
		}
	}
}

// startRecordedPrometheus starts a Prometheus that has these samples, and scrapes nothing.
func startRecordedPrometheus(t *testing.T, shares []*RecordedShare, honor bool) *Prometheus {
	t.Helper()
	promtool, folder := prometheusProgram(t, "promtool"), t.TempDir()
	text, data := filepath.Join(folder, "samples.om"), filepath.Join(folder, "data")
	writeRecordedUse(t, text, shares, honor)
	output, err := exec.Command(promtool, "tsdb", "create-blocks-from", "openmetrics", text, data).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, output)
	}
	configuration := filepath.Join(folder, "prometheus.yaml")
	if err := os.WriteFile(configuration, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	// A scrape that misses a series marks its end. Imported samples have no such marks.
	process, err := startProcess("prometheus", filepath.Join(folder, "log"), prometheusProgram(t, "prometheus"),
		"--config.file", configuration, "--storage.tsdb.path", data, "--query.lookback-delta=20s",
		"--web.listen-address", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	process.endWithTest(t)
	prometheus := &Prometheus{process: process, port: port}
	waitFor(t, 2*time.Minute, "Prometheus to have the samples", func() (bool, string) {
		if !process.running() {
			t.Fatalf("Prometheus ended:\n%s", process.logTail(10))
		}
		series, err := prometheus.query("max_over_time(mgpu_container_core_limit_ratio[48h])")
		return err == nil && len(series) > 0, fmt.Sprint(err)
	})
	return prometheus
}
