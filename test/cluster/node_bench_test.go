package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

const (
	benchAlone      = 60 // sequential starts
	benchRounds     = 5
	benchRoundPods  = 60
	benchPods       = 50
	benchContainers = 4 // of each pod
	benchIdle       = 60 * time.Second
)

// bench/node.sh runs these benchmarks. bench/README.md has their results.

// BenchmarkNodeStart starts containers sequentially and concurrently, with each settle time. A miss is a
// container that containerd rejected because it had not read the CDI file of its device yet.
func BenchmarkNodeStart(b *testing.B) {
	for _, settle := range []int{0, 20, 50} {
		b.Run(fmt.Sprintf("settle=%dms/alone", settle), func(b *testing.B) {
			world := newNodeWorld(b, v100s(8), "--settle-ms", strconv.Itoa(settle))
			for i := range benchAlone {
				name := fmt.Sprint("alone-", i)
				world.createBound(b, world.pod(name).share(5, 300), fmt.Sprint(i%8))
				world.waitRunning(b, name)
				world.removeNow(b, name)
			}
			world.reportStarts(b)
		})
		b.Run(fmt.Sprintf("settle=%dms/together", settle), func(b *testing.B) {
			world := newNodeWorld(b, v100s(8), "--settle-ms", strconv.Itoa(settle))
			for round := range benchRounds {
				var names []string
				for i := range benchRoundPods {
					names = append(names, fmt.Sprintf("r%d-%d", round, i))
					world.createBound(b, world.pod(names[i]).share(5, 300), fmt.Sprint(i%8))
				}
				world.checkViews(b, names...)
				world.removeNow(b, names...)
			}
			world.reportStarts(b)
		})
	}
}

func (w *NodeWorld) reportStarts(b *testing.B) {
	metrics := w.plugin.metrics(b)
	const allocate, start = "mgpu_plugin_allocate_duration_seconds", "mgpu_plugin_prestart_duration_seconds"
	started := `result="started"`
	b.ReportMetric(0, "ns/op") // the default metric has no meaning here
	b.ReportMetric(metrics.with(start+"_count", started), "starts")
	b.ReportMetric(float64(w.misses(b)), "misses")
	b.ReportMetric(1000*metrics.percentile(allocate, 0.5), "allocate-p50-ms")
	b.ReportMetric(1000*metrics.percentile(allocate, 0.99), "allocate-p99-ms")
	b.ReportMetric(1000*metrics.percentile(start, 0.5, started), "prestart-p50-ms")
	b.ReportMetric(1000*metrics.percentile(start, 0.99, started), "prestart-p99-ms")
}

// BenchmarkNodeIdle measures the plugin while 200 running containers share 8 cards. With
// ResourceHealthStatus, kubelet 1.36 updates the status of such pods every few seconds, in another order
// (kubernetes/kubernetes#142293).
func BenchmarkNodeIdle(b *testing.B) {
	for _, health := range []string{"true", "false"} {
		b.Run("ResourceHealthStatus="+health, func(b *testing.B) {
			node := realNode(b)
			node.kubelet.Kill()
			if err := node.startKubelet("--feature-gates=ResourceHealthStatus=" + health +
				",ResourceHealthStatusMessage=" + health); err != nil {
				b.Fatal(err)
			}
			if err := node.waitReady(); err != nil {
				b.Fatal(err)
			}
			newNodeWorld(b, v100s(8)).idle(b)
		})
	}
}

func (w *NodeWorld) idle(b *testing.B) {
	var names []string
	for i := range benchPods {
		names = append(names, fmt.Sprint("idle-", i))
		builder, card := w.pod(names[i]), fmt.Sprint(i%8)
		var cards []string
		for range benchContainers {
			builder, cards = builder.share(3, 300), append(cards, card)
		}
		w.createBound(b, builder, cards...)
	}
	w.checkViews(b, names...)
	before := processorTimesOf(b, map[string]*Process{"": w.plugin.process})[""]
	time.Sleep(benchIdle)
	used := processorTimesOf(b, map[string]*Process{"": w.plugin.process})[""] - before
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*used.Seconds()/benchIdle.Seconds(), "percent-of-a-core")
	b.ReportMetric(w.plugin.metrics(b).with("process_resident_memory_bytes")/(1<<20), "resident-MiB")
	begin := time.Now()
	const scrapes = 50
	for range scrapes {
		w.plugin.metrics(b)
	}
	b.ReportMetric(1000*time.Since(begin).Seconds()/scrapes, "scrape-ms")
}
