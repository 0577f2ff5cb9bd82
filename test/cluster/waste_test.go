package cluster

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ShownWaste is a row of kubectl mgpu waste.
type ShownWaste struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	OwnerKind string `json:"ownerKind"`
	Owner     string `json:"owner"`
	Container string `json:"container"`
	Shares    int    `json:"shares"`
	GPUHours  struct {
		Granted       float64  `json:"granted"`
		Used          *float64 `json:"used"`
		Wasted        *float64 `json:"wasted"`
		WastedPercent *float64 `json:"wastedPercent"`
	} `json:"gpuHours"`
	HoursMeasured float64 `json:"hoursMeasured"`
	Samples       int     `json:"samples"`
	Core          struct {
		Granted int      `json:"granted"`
		P95     *float64 `json:"p95"`
	} `json:"core"`
	Memory struct {
		Granted int  `json:"granted"`
		Peak    *int `json:"peak"`
	} `json:"memoryMiB"`
	Suggested *struct {
		Core   int `json:"core"`
		Memory int `json:"memoryMiB"`
	} `json:"suggested"`
}

const wasteNamespace = "recorded"

// recordedShares are a day of shares that ends at a time.
func recordedShares(until int64) []*RecordedShare {
	const hour = 3600
	random := rand.New(rand.NewSource(16))
	from := until - 24*hour + 7 // scrapes are not at whole steps
	share := func(pod, card string, core float64, memoryMiB int) *RecordedShare {
		return &RecordedShare{namespace: wasteNamespace, pod: pod, container: "app", card: card, core: core,
			memoryMiB: memoryMiB, jobs: []string{"mgpu"}}
	}
	steady := share("steady", "GPU-0", 0.3, 8192)
	steady.hold(random, from, until, 0.3, 0)
	steady.jobs, steady.movedAt = []string{"mgpu-first", "mgpu-second"}, from+9*hour
	idle := share("idle", "GPU-0", 0.5, 16384)
	idle.hold(random, from, until, 0.2, 0.8)
	ended := share("ended", "GPU-1", 1, 40960)
	ended.hold(random, from+3*hour, from+8*hour, 0.9, 0.3)
	ended.ownerKind, ended.owner = "Job", "nightly"
	short := share("short", "GPU-1", 0.25, 2048)
	short.hold(random, from+20*hour, from+20*hour+40*60, 0.25, 0)
	never := share("never", "GPU-2", 0.4, 4096)
	never.rest(from, until)
	again := share("again", "GPU-3", 0.2, 1024) // with a break in which the pod did not exist
	again.hold(random, from, from+2*hour, 0.1, 0)
	again.hold(random, from+10*hour, from+14*hour, 0.2, 0.2)
	counted := share("counted", "GPU-3", 0.4, 1024)
	counted.rest(from, until)
	counted.counted = 0.1
	first, second := share("both", "GPU-4", 0.5, 4096), share("both", "GPU-5", 0.5, 4096)
	first.hold(random, from, until, 0.5, 0.1)
	second.hold(random, from, until, 0.1, 0.9)
	hostile := share("p\"} 1\n# \\ \u202e<b>", "GPU-6", 0.1, 1024)
	hostile.hold(random, from, from+2*hour, 0.1, 0)
	other := share("other", "GPU-6", 0.1, 1024)
	other.hold(random, from, from+2*hour, 0.1, 0)
	other.namespace = "another"
	return []*RecordedShare{steady, idle, ended, short, never, again, counted, first, second, hostile, other}
}

func (p *Prometheus) waste(t *testing.T, until int64, words ...string) string {
	t.Helper()
	words = append([]string{"waste", "--prometheus-url", fmt.Sprint("http://127.0.0.1:", p.port), "--until",
		time.Unix(until, 0).UTC().Format(time.RFC3339)}, words...)
	output, problems, code := kubectlMgpu(t, adminToken, words...)
	if code != 0 || problems != "" {
		t.Fatalf("kubectl mgpu %s: exit code %d\n%s%s", strings.Join(words, " "), code, output, problems)
	}
	return output
}

func aboutPercent(part, whole float64) float64 { return part / whole * 100 }

// checkReplay compares the row of a pod with the exact replay of its samples: within 2 points.
func checkReplay(t *testing.T, rows []ShownWaste, pod string, shares []*RecordedShare) {
	t.Helper()
	var exact ReplayedUse
	count := 0
	for _, share := range shares {
		if share.pod != pod {
			continue
		}
		one := share.replay()
		exact.grantedHours += one.grantedHours
		exact.usedHours += one.usedHours
		exact.corePercentP95 = max(exact.corePercentP95, one.corePercentP95)
		exact.peakMiB = max(exact.peakMiB, one.peakMiB)
		count++
	}
	for _, row := range rows {
		if row.Pod != pod {
			continue
		}
		if row.GPUHours.Used == nil || row.GPUHours.WastedPercent == nil || row.Core.P95 == nil || row.Memory.Peak == nil {
			t.Fatalf("pod %q has parts that are not known: %+v", pod, row)
		}
		granted := aboutPercent(row.GPUHours.Granted, exact.grantedHours)
		used := aboutPercent(*row.GPUHours.Used, exact.grantedHours)
		exactUsed := aboutPercent(exact.usedHours, exact.grantedHours)
		t.Logf("pod %q: granted %.3f (exactly %.3f) GPU-hours, used %.2f %% (%.2f %%), p95 %.2f (%.2f), peak %d (%d)", pod,
			row.GPUHours.Granted, exact.grantedHours, used, exactUsed, *row.Core.P95, exact.corePercentP95,
			*row.Memory.Peak, exact.peakMiB)
		if row.Shares != count || *row.Memory.Peak != exact.peakMiB || math.Abs(granted-100) > 2 ||
			math.Abs(used-exactUsed) > 2 || math.Abs(*row.Core.P95-exact.corePercentP95) > 2 ||
			math.Abs(*row.GPUHours.WastedPercent-(100-exactUsed)) > 2 {
			t.Errorf("pod %q: %+v, and the replay is %+v", pod, row, exact)
		}
		return
	}
	t.Errorf("pod %q has no row", pod)
}

func TestWasteAgreesWithAReplayOfRecordedSamples(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	shares := recordedShares(until)
	prometheus := startRecordedPrometheus(t, shares, true)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-n", wasteNamespace, "-o", "json"))
	pods := []string{"steady", "idle", "ended", "short", "never", "again", "counted", "both"}
	if len(rows) != len(pods)+1 {
		t.Errorf("%d rows for %d pods and a hostile one", len(rows), len(pods))
	}
	for _, pod := range pods {
		checkReplay(t, rows, pod, shares)
	}
	for _, row := range rows {
		if row.Pod == "short" && row.Suggested != nil {
			t.Errorf("40 minutes suffice for a suggestion: %+v", row.Suggested)
		}
		if row.Pod == "never" && (row.Suggested == nil || row.Suggested.Core != 5) {
			t.Errorf("a share that nobody uses has no smallest suggestion: %+v", row)
		}
	}
	t.Run("Namespaces", func(t *testing.T) {
		names := map[string]int{}
		for _, row := range items[ShownWaste](t, prometheus.waste(t, until, "-A", "--by", "namespace", "-o", "json")) {
			names[row.Namespace] = row.Shares
		}
		if fmt.Sprint(names) != fmt.Sprint(map[string]int{wasteNamespace: 10, "another": 1}) {
			t.Error(names)
		}
	})
	t.Run("Owners", func(t *testing.T) {
		found := false
		for _, row := range items[ShownWaste](t, prometheus.waste(t, until, "-A", "--by", "owner", "-o", "json")) {
			found = found || row.OwnerKind == "Job" && row.Owner == "nightly"
		}
		if !found {
			t.Error("the Job of a pod that has ended is not an owner")
		}
	})
	t.Run("CSV", func(t *testing.T) {
		records, err := csv.NewReader(strings.NewReader(prometheus.waste(t, until, "-A", "-o", "csv"))).ReadAll()
		if err != nil || len(records) != len(pods)+3 {
			t.Error(len(records), err)
		}
	})
	t.Run("ATimeBefore", func(t *testing.T) {
		output := prometheus.waste(t, until-25*3600, "-A", "--since", "1h", "-o", "json")
		if rows := items[ShownWaste](t, output); len(rows) != 0 {
			t.Error(rows)
		}
	})
}

func TestWasteReadsLabelsThatPrometheusHasRenamed(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	shares := recordedShares(until)[:2]
	prometheus := startRecordedPrometheus(t, shares, false)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-n", wasteNamespace, "-o", "json"))
	checkReplay(t, rows, "steady", shares)
	checkReplay(t, rows, "idle", shares)
}

func TestWasteReadsLabelsThatPrometheusRenamedForAWhile(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	shares := recordedShares(until)[:2]
	shares[0].renamedBefore = true
	prometheus := startRecordedPrometheus(t, shares, true)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-A", "-o", "json"))
	if len(rows) != len(shares) {
		t.Errorf("%d rows for %d pods", len(rows), len(shares))
	}
	checkReplay(t, rows, "steady", shares)
	checkReplay(t, rows, "idle", shares)
}

func TestWasteCountsAShareOnceThatJobsWithAndWithoutHonorLabelsRead(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	shares := recordedShares(until)[:2]
	shares[0].renamed = []string{"mgpu-second"}
	prometheus := startRecordedPrometheus(t, shares, true)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-A", "-o", "json"))
	if len(rows) != len(shares) {
		t.Errorf("%d rows for %d pods", len(rows), len(shares))
	}
	checkReplay(t, rows, "steady", shares)
	checkReplay(t, rows, "idle", shares)
}

func TestWasteDoesNotCountWhatPodsOfTenantsExport(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	shares := recordedShares(until)[:2]
	for _, share := range shares { // a tenant exports the same containers, with a whole card each
		forged := *share
		forged.core, forged.jobs, forged.renamed, forged.counted = 1, []string{"tenant"}, []string{"tenant"}, 1
		shares = append(shares, &forged)
	}
	prometheus := startRecordedPrometheus(t, shares, true)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-A", "-o", "json"))
	checkReplay(t, rows, "steady", shares[:2])
	checkReplay(t, rows, "idle", shares[:2])

	output, problems, code := kubectlMgpu(t, adminToken, "waste", "-A", "--prometheus-url",
		fmt.Sprint("http://127.0.0.1:", prometheus.port), "--prometheus-matcher", `job="another"`)
	if code != 1 || output != "" || !strings.Contains(problems, `none of a series that matches job="another"`) {
		t.Errorf("a job that does not exist: exit code %d, %q, %q", code, output, problems)
	}
}

func TestWasteDoesNotCountTimeThatWasNotMeasured(t *testing.T) {
	until := time.Now().Unix() / recordedInterval * recordedInterval
	share := recordedShares(until)[0]
	for i := range share.samples { // the driver lists processes, and measures them in the last hours only
		share.samples[i].busy = i >= len(share.samples)*9/10
	}
	prometheus := startRecordedPrometheus(t, []*RecordedShare{share}, true)
	rows := items[ShownWaste](t, prometheus.waste(t, until, "-A", "-o", "json"))
	if len(rows) != 1 || rows[0].GPUHours.Wasted == nil || rows[0].Core.P95 != nil ||
		math.Abs(rows[0].HoursMeasured-2.4) > 0.1 || *rows[0].GPUHours.Wasted > 0.3*2.4 {
		t.Errorf("%+v", rows)
	}
}

func TestWasteSaysWhatPrometheusSays(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	output, problems, code := kubectlMgpu(t, adminToken, "waste", "-A", "--prometheus-url", fmt.Sprint("http://127.0.0.1:", port))
	if code != 1 || output != "" || !strings.HasPrefix(problems, "kubectl mgpu: Prometheus does not answer: ") {
		t.Errorf("exit code %d, %q, %q", code, output, problems)
	}
	output, problems, code = kubectlMgpu(t, adminToken, "waste", "-A", "--prometheus-url", plane.serverURL(),
		"--prometheus-ca", plane.authority.file())
	refused := regexp.MustCompile(`^kubectl mgpu: the server at --prometheus-url answers 40[13] with ".+"; the token in the file ` +
		`--prometheus-token-file must permit queries, and a server with tenants needs --prometheus-tenant\n$`)
	if code != 1 || output != "" || !refused.MatchString(problems) {
		t.Errorf("the API server in place of Prometheus: exit code %d, %q, %q", code, output, problems)
	}
}
