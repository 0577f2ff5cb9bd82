package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Throughput measures how many pods kube-scheduler binds in a second with mgpu-extender, and without it.
// All pods exist before kube-scheduler starts. The rate is that of the middle 80 % of the binds. Where each pod
// evicts another, kube-scheduler evicts for all of them before it binds the first: there it is the rate from the
// first eviction to the last bind.
type Throughput struct {
	nodes     int
	pairs     int
	against   string // an mgpu-extender that is measured instead of running without any, or ""
	namespace string
}

// throughputCase is a row of the table. Both kube-schedulers get the same nodes, and pods that are equally
// hard to place.
type throughputCase struct {
	key   string // in MGPU_THROUGHPUT_CASES
	name  string
	stock SchedulerSetup
	ours  SchedulerSetup
	pods  func(stock bool) []*PodBuilder
	// Pods that are on the nodes before, or nil.
	before func(nodes []string, stock bool) []placedPod
	// Where it is not zero, so many pods at a time are the members of a PodGroup.
	gang int
	// Number of pods that are bound at the end.
	bound int
	// Whether the time begins with the first eviction.
	evicts bool
	// Whether kube-scheduler and the extender have certificates, as the chart installs them.
	certificates bool
	// Whether an extender that decides nothing is compared, instead of mgpu-extender.
	null bool
	// Where it is not zero, no kube-scheduler runs: as many binds as this number of them sends are compared with
	// those of a plain client.
	binders int
}

const (
	shippedSetup     = "kube-scheduler.yaml"
	throughputLimit  = 5 * time.Minute
	shareCore        = 30
	shareMemoryMiB   = 4000
	unplaceableOneIn = 5
	boundPods        = "spec.nodeName!="
)

// TestThroughput runs only where MGPU_THROUGHPUT_NODES is set; bench/throughput.sh sets it.
func TestThroughput(t *testing.T) {
	for _, throughput := range throughputsOf(t) {
		t.Run(fmt.Sprint(throughput.nodes), func(t *testing.T) { throughput.run(context.Background(), t) })
	}
}

func throughputsOf(t *testing.T) []Throughput {
	t.Helper()
	sizes := numbersOf(t, "MGPU_THROUGHPUT_NODES", "throughput.sh", 10, 5000)
	pairs := numbersOf(t, "MGPU_THROUGHPUT_PAIRS", "throughput.sh", 1, 99)[0]
	var throughputs []Throughput
	for _, nodes := range sizes {
		throughputs = append(throughputs,
			Throughput{nodes: nodes, pairs: pairs, against: os.Getenv("MGPU_THROUGHPUT_AGAINST")})
	}
	return throughputs
}

// numbersOf reads a list of numbers, separated by commas. The test is skipped where the variable is not set.
func numbersOf(t testing.TB, variable, script string, least, most int) []int {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("%s is not set; bench/%s sets it", variable, script)
	}
	var numbers []int
	for text := range strings.SplitSeq(value, ",") {
		number, err := strconv.Atoi(text)
		if err != nil || number < least || number > most {
			t.Fatalf("%s has %q, want numbers from %d to %d", variable, text, least, most)
		}
		numbers = append(numbers, number)
	}
	return numbers
}

func (b *Throughput) run(ctx context.Context, t *testing.T) {
	b.namespace = newNamespace(ctx, t)
	createPriorityClass(ctx, t, "preempts", 1000)
	b.wanted(t)
	nodes := plane.createManyNodes(ctx, t, b.nodes)
	t.Logf("%-40s %8s %8s %7s %s", fmt.Sprint(b.nodes, " nodes"), "without", "with", "ratio", "least .. most")
	for _, one := range b.wanted(t) {
		b.compare(ctx, t, one, nodes)
	}
}

// wanted returns the cases that MGPU_THROUGHPUT_CASES names, or all.
func (b *Throughput) wanted(t *testing.T) []throughputCase {
	t.Helper()
	text := os.Getenv("MGPU_THROUGHPUT_CASES")
	if text == "" {
		return b.cases()
	}
	var wanted []throughputCase
	for key := range strings.SplitSeq(text, ",") {
		cases := b.cases()
		at := slices.IndexFunc(cases, func(one throughputCase) bool { return one.key == key })
		if at < 0 {
			t.Fatalf("MGPU_THROUGHPUT_CASES has %q; bench/throughput.sh lists the rows", key)
		}
		wanted = append(wanted, cases[at])
	}
	return wanted
}

func (b *Throughput) cases() []throughputCase {
	stock := SchedulerSetup{configuration: shippedSetup, stock: true}
	ours := SchedulerSetup{configuration: shippedSetup}
	all := func(setup SchedulerSetup) SchedulerSetup {
		setup.percentage = 100
		return setup
	}
	// The more pods, the longer the measurement: on two processors, kube-scheduler binds some hundred in a second.
	count := min(2000, 20*b.nodes)
	// Where all nodes are examined, it binds fewer in a large cluster.
	fewer := min(count, max(400, 1000*1000/b.nodes))
	gang := func(key string, size int, null bool) throughputCase {
		knows := func(setup SchedulerSetup) SchedulerSetup {
			setup.gates = plane.groupGates()
			return setup
		}
		name := fmt.Sprint("pods with cards, in groups of ", size)
		if null {
			name += ", an extender that decides nothing"
		}
		return throughputCase{key: key, name: name, stock: knows(stock), ours: knows(ours), null: null,
			pods: b.gangs(key, count/size*size, size), bound: count / size * size, gang: size}
	}
	return []throughputCase{
		gang("gangs-8", 8, false), gang("gangs-64", 64, false), gang("null-gangs-8", 8, true), gang("null-gangs-64", 64, true),
		{key: "cards", name: "pods with cards", stock: stock, ours: ours, pods: b.shares(count), bound: count},
		{key: "none", name: "pods without cards", stock: stock, ours: ours, pods: b.withoutCards(count), bound: count},
		{key: "cards-tls", name: "pods with cards, with certificates", stock: stock, ours: ours, pods: b.shares(count),
			bound: count, certificates: true},
		{key: "null", name: "an extender that decides nothing", stock: stock, pods: b.shares(count), bound: count, null: true},
		{key: "null-tls", name: "decides nothing, with certificates", stock: stock, pods: b.shares(count), bound: count, null: true,
			certificates: true},
		{key: "cards-all", name: "pods with cards, all nodes examined", stock: all(stock), ours: all(ours), pods: b.shares(fewer),
			bound: fewer},
		{key: "none-all", name: "pods without cards, all nodes examined", stock: all(stock), ours: all(ours),
			pods: b.withoutCards(fewer), bound: fewer},
		{key: "full", name: "one share is left on each node", stock: stock, ours: ours, pods: b.shares(min(count, b.nodes*4/5)),
			before: b.fill, bound: min(count, b.nodes*4/5)},
		{key: "unplaceable", name: "20 % of the pods fit nowhere", stock: stock, ours: ours, pods: b.someUnplaceable(count),
			bound: count * (unplaceableOneIn - 1) / unplaceableOneIn},
		{key: "preempting", name: "each pod evicts another", stock: stock, ours: ours, pods: b.preempting(min(100, b.nodes/2)),
			before: b.occupy, bound: min(100, b.nodes/2), evicts: true},
		{key: "by-card", name: "each pod evicts another, with: by card", stock: stock, ours: ours, pods: b.preemptingByCard(20),
			before: b.fragment, bound: 20, evicts: true},
		{key: "binds-1", name: "binds of 1 scheduler, plain client", pods: b.shares(count), binders: 1},
		{key: "binds-2", name: "binds of 2 schedulers, plain client", pods: b.shares(count), binders: 2},
		{key: "binds-16", name: "binds of 16 schedulers, plain client", pods: b.shares(count), binders: 16},
	}
}

func (b *Throughput) shares(count int) func(bool) []*PodBuilder {
	return func(bool) []*PodBuilder {
		return b.make(count, func(pod *PodBuilder, _ int) { pod.share(shareCore, shareMemoryMiB).cpu("100m") })
	}
}

func (b *Throughput) withoutCards(count int) func(bool) []*PodBuilder {
	return func(bool) []*PodBuilder {
		return b.make(count, func(pod *PodBuilder, _ int) { pod.container("c0", "", "").cpu("100m") })
	}
}

// gangs returns pods of groups of this size, for the row with this key.
func (b *Throughput) gangs(key string, count, size int) func(bool) []*PodBuilder {
	return func(bool) []*PodBuilder {
		return b.make(count, func(pod *PodBuilder, i int) {
			pod.share(shareCore, shareMemoryMiB).cpu("100m").inGroup(gangName(key, i/size))
		})
	}
}

func gangName(row string, number int) string { return fmt.Sprintf("%s-%05d", row, number) }

// Without the extender a pod fits nowhere if it requests more than a node has; with it also if it requests
// more than a card has.
func (b *Throughput) someUnplaceable(count int) func(bool) []*PodBuilder {
	return func(stock bool) []*PodBuilder {
		return b.make(count, func(pod *PodBuilder, i int) {
			switch {
			case i%unplaceableOneIn != 0:
				pod.share(shareCore, shareMemoryMiB)
			case stock:
				pod.wholeCards(cardsOfEachNode + 1)
			default:
				pod.share(shareCore, cardMemoryMiB+1)
			}
			pod.cpu("100m")
		})
	}
}

func (b *Throughput) preempting(count int) func(bool) []*PodBuilder {
	return func(bool) []*PodBuilder {
		return b.make(count, func(pod *PodBuilder, _ int) { pod.wholeCards(1).cpu("100m").priorityClass("preempts") })
	}
}

// With the extender, the sums of each node suffice.
func (b *Throughput) preemptingByCard(count int) func(bool) []*PodBuilder {
	return func(stock bool) []*PodBuilder {
		if stock {
			return b.preempting(count)(true)
		}
		return b.make(count, func(pod *PodBuilder, _ int) {
			pod.share(70, shareMemoryMiB).cpu("100m").priorityClass("preempts")
		})
	}
}

// fill leaves half of a card free on each node.
func (b *Throughput) fill(nodes []string, _ bool) []placedPod {
	var placed []placedPod
	for i, node := range nodes {
		pod := newPod(b.namespace, fmt.Sprintf("placed-%05d", i))
		pod.wholeCards(cardsOfEachNode-1).share(50, 16000).cpu("100m")
		placed = append(placed, placedPod{pod, node, map[string]string{"c0": "0,1,2,3,4,5,6", "c1": "7"}})
	}
	return placed
}

// occupy leaves nothing free on any node.
func (b *Throughput) occupy(nodes []string, _ bool) []placedPod {
	return b.onEachCard(nodes, func(pod *PodBuilder) { pod.wholeCards(1) })
}

// fragment leaves 40 % of each card free, and without the extender nothing.
func (b *Throughput) fragment(nodes []string, stock bool) []placedPod {
	if stock {
		return b.occupy(nodes, stock)
	}
	return b.onEachCard(nodes, func(pod *PodBuilder) { pod.share(60, shareMemoryMiB) })
}

func (b *Throughput) onEachCard(nodes []string, shape func(*PodBuilder)) []placedPod {
	var placed []placedPod
	for i := range cardsOfEachNode * len(nodes) {
		pod := newPod(b.namespace, fmt.Sprintf("placed-%05d", i))
		shape(pod)
		pod.cpu("100m")
		placed = append(placed, placedPod{pod, nodes[i/cardsOfEachNode], map[string]string{"c0": fmt.Sprint(i % cardsOfEachNode)}})
	}
	return placed
}

func (b *Throughput) make(count int, shape func(*PodBuilder, int)) []*PodBuilder {
	pods := make([]*PodBuilder, count)
	for i := range pods {
		pods[i] = newPod(b.namespace, fmt.Sprintf("pod-%05d", i))
		shape(pods[i], i)
	}
	return pods
}

// compare measures pairs, with and without the extender in turn, and prints a row of the table.
func (b *Throughput) compare(ctx context.Context, t *testing.T, one throughputCase, nodes []string) {
	t.Helper()
	measure := b.measure
	if one.binders > 0 {
		measure = b.measureBinds
	}
	var without, with, ratios []float64
	usedWithout, usedWith := usedTimes{}, usedTimes{}
	for i := 0; one.gang > 0 && i < one.bound/one.gang; i++ {
		(&World{ctx: ctx, namespace: b.namespace}).createGroup(t, gangName(one.key, i), one.gang, "")
	}
	for range b.pairs {
		without = append(without, measure(ctx, t, one, nodes, true, usedWithout))
		with = append(with, measure(ctx, t, one, nodes, false, usedWith))
		ratios = append(ratios, with[len(with)-1]/without[len(without)-1])
		t.Logf("  a pair: without %.0f (%s), with %.0f (%s)", without[len(without)-1], usedWithout.last(),
			with[len(with)-1], usedWith.last())
	}
	slices.Sort(ratios)
	t.Logf("%-40s %8.0f %8.0f %7.2f %.2f .. %.2f", one.name, median(without), median(with), median(ratios), ratios[0],
		ratios[len(ratios)-1])
	t.Logf("  ms of CPU for a pod, without: %v", usedWithout)
	t.Logf("  ms of CPU for a pod, with:    %v", usedWith)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// measure returns the pods that were bound in a second.
func (b *Throughput) measure(ctx context.Context, t *testing.T, one throughputCase, nodes []string, stock bool,
	used usedTimes) float64 {
	t.Helper()
	processes := map[string]*Process{"etcd": plane.etcd, "kube-apiserver": plane.apiServer}
	if one.before != nil {
		place(ctx, t, b.namespace, one.before(nodes, stock && b.against == ""))
	}
	setup, plain := one.stock, stock && (b.against == "" || one.null)
	switch {
	case plain:
	case one.null:
		setup = startNullExtender(t, one.certificates)
		setup.gates = one.stock.gates
	default:
		setup = one.ours
		extender := b.extender(t, one, &setup)
		extender.binary = b.binaryOf(extender, stock)
		extender.start(t)
		defer extender.end(t)
		extender.waitReady(t)
		extender.waitNodes(t, len(nodes))
		setup.extenderURL = extender.url()
		processes["mgpu-extender"] = extender.process
	}
	createAll(ctx, t, one.pods(plain))
	binds := b.watchBinds(ctx, t)
	command := plane.schedulerCommand(t, setup)
	profiles := os.Getenv("MGPU_THROUGHPUT_PROFILES")
	if profiles != "" {
		command = command.withProfiles(plane)
	}
	scheduler, err := command.start()
	if err != nil {
		t.Fatal(err)
	}
	defer scheduler.Kill()
	profiled := make(chan error, 1)
	go func() {
		if profiles == "" {
			profiled <- nil
			return
		}
		profiled <- command.writeProfiles(profiles, fmt.Sprintf("%d-%s-%s", b.nodes, one.key, setup.kind()))
	}()
	processes["kube-scheduler"] = scheduler
	times := binds.take(ctx, t, one.bound, used.over(t, processes, one.bound))
	if err := <-profiled; err != nil {
		t.Error(err)
	}
	scheduler.Kill()
	b.removeAll(ctx, t)
	if one.evicts {
		return float64(len(times)) / times[len(times)-1].Sub(binds.evicted).Seconds()
	}
	return rateOf(times)
}

// binaryOf returns the program of one side of a pair.
func (b *Throughput) binaryOf(extender *Extender, stock bool) string {
	if stock {
		return b.against
	}
	return extender.binary
}

// extender returns an extender that has not been started. With certificates kube-scheduler gets one, too.
func (b *Throughput) extender(t *testing.T, one throughputCase, setup *SchedulerSetup) *Extender {
	t.Helper()
	if !one.certificates {
		return plane.extenderOn(t, "http", http.DefaultClient)
	}
	extender, secured := plane.extenderWithCertificates(t)
	setup.configuration, setup.tls = secured.configuration, secured.tls
	return extender
}

// middleOf returns the first and the last of the middle 80 %.
func middleOf(count int) (int, int) { return count / 10, count * 9 / 10 }

// rateOf returns the number in a second over the middle 80 %.
func rateOf(times []time.Time) float64 {
	first, last := middleOf(len(times))
	return float64(last-first) / times[last].Sub(times[first]).Seconds()
}

// bindWatch delivers the pods of the namespace once they have a node.
type bindWatch struct {
	namespace string
	version   string // of the last event
	watch     watch.Interface
	seen      map[string]bool
	evicted   time.Time // the first deletion of a pod that had a node
}

func (b *Throughput) watchBinds(ctx context.Context, t *testing.T) *bindWatch {
	t.Helper()
	list, err := plane.admin.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{FieldSelector: boundPods})
	if err != nil {
		t.Fatal(err)
	}
	binds := &bindWatch{namespace: b.namespace, version: list.ResourceVersion, seen: map[string]bool{}}
	for i := range list.Items {
		binds.seen[list.Items[i].Name] = true
	}
	binds.open(ctx, t)
	return binds
}

func (w *bindWatch) open(ctx context.Context, t *testing.T) {
	t.Helper()
	var err error
	w.watch, err = plane.admin.CoreV1().Pods(w.namespace).Watch(ctx,
		metav1.ListOptions{FieldSelector: boundPods, ResourceVersion: w.version})
	if err != nil {
		t.Fatal(err)
	}
}

// take returns the times at which this number of pods was bound. It calls `progress` after each.
func (w *bindWatch) take(ctx context.Context, t *testing.T, count int, progress func(bound int)) []time.Time {
	t.Helper()
	defer func() { w.watch.Stop() }()
	var times []time.Time
	limit := time.After(throughputLimit)
	for len(times) < count {
		select {
		case event, open := <-w.watch.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !open {
				w.open(ctx, t)
			} else if !ok {
				t.Fatalf("the watch of pods: %v", event.Object)
			} else if w.version = pod.ResourceVersion; w.evicted.IsZero() && pod.DeletionTimestamp != nil {
				w.evicted = time.Now()
			} else if !w.seen[pod.Name] {
				w.seen[pod.Name] = true
				times = append(times, time.Now())
				progress(len(times))
			}
		case <-limit:
			t.Fatalf("%d of %d pods are bound after %v", len(times), count, throughputLimit)
		}
	}
	return times
}

func (b *Throughput) removeAll(ctx context.Context, t *testing.T) {
	t.Helper()
	removePods(b.namespace)
	waitFor(t, time.Minute, "the pods to be gone", func() (bool, string) {
		pods, err := list(ctx, b.namespace)
		return err == nil && len(pods) == 0, fmt.Sprint(len(pods), " pods, ", err)
	})
}
