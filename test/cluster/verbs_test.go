package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShownCard is a card in the output of kubectl mgpu cards.
type ShownCard struct {
	Node   string         `json:"node"`
	Index  int            `json:"index"`
	State  string         `json:"state"`
	Pods   int            `json:"pods"`
	Core   map[string]int `json:"core"`
	Memory map[string]int `json:"memoryMiB"`
}

// ShownPod is a pod in the output of kubectl mgpu pods.
type ShownPod struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Node       string `json:"node"`
	Status     string `json:"status"`
	Message    string `json:"message"`
	Containers []struct {
		Indices []int `json:"indices"`
	} `json:"containers"`
}

// kubectlMgpu runs kubectl-mgpu with the credentials of a token, and returns its output, its errors and its
// exit code.
func kubectlMgpu(t *testing.T, token string, words ...string) (string, string, int) {
	t.Helper()
	command := exec.Command(kubectlMgpuBinary(t), append(words, "--kubeconfig", plane.kubeconfig(token))...)
	command.Env = append(os.Environ(), "PATH="+plane.binaries+":/usr/bin:/bin")
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	_ = command.Run()
	return output.String(), problems.String(), command.ProcessState.ExitCode()
}

// show runs a command against the extender's real listener, as administrator. It must succeed.
func (w *World) show(t *testing.T, words ...string) string {
	t.Helper()
	output, problems, code := w.tryShow(t, words...)
	if code != 0 || problems != "" {
		t.Fatalf("kubectl mgpu %s: exit code %d\n%s%s", strings.Join(words, " "), code, output, problems)
	}
	return output
}

func (w *World) tryShow(t *testing.T, words ...string) (string, string, int) {
	t.Helper()
	return kubectlMgpu(t, adminToken,
		append(words, "--url", fmt.Sprintf("http://127.0.0.1:%d", w.extender.metricsPort))...)
}

func items[T any](t *testing.T, output string) []T {
	t.Helper()
	var list struct {
		Items []T `json:"items"`
	}
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return list.Items
}

func (w *World) shownCards(t *testing.T) []ShownCard {
	t.Helper()
	return items[ShownCard](t, w.show(t, append([]string{"cards", "-o", "json"}, w.nodes...)...))
}

func TestKubectlMgpuShowsNodesCardsAndPods(t *testing.T) {
	world := newWorld(t, 2)
	create(world.ctx, t, world.pod("some").share(30, 1024))
	create(world.ctx, t, world.pod("large").share(10, 1<<20))
	bound := waitBound(world.ctx, t, world.namespace, "some")
	waitPending(world.ctx, t, world.namespace, "large", "nodes are available")
	if _, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, bound.Spec.NodeName, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"verbs":"`+world.namespace[:8]+`"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := world.show(t, "nodes", "-o", "name", "-l", "verbs="+world.namespace[:8]); got != "node/"+bound.Spec.NodeName+"\n" {
		t.Errorf("nodes with the label: %q", got)
	}
	var used []ShownCard
	for _, card := range world.shownCards(t) {
		if card.Core["used"] > 0 {
			used = append(used, card)
		}
	}
	if len(used) != 1 || used[0].Node != bound.Spec.NodeName || used[0].Core["used"] != 30 ||
		used[0].Memory["used"] != 1024 || used[0].Pods != 1 {
		t.Errorf("cards in use: %+v", used)
	}
	shown, problems, _ := kubectlMgpu(t, adminToken, "pods", "-n", world.namespace, "-o", "json")
	pods := items[ShownPod](t, shown)
	index := bound.Annotations[indexKeyPrefix+"c0"]
	if problems != "" || len(pods) != 2 || pods[0].Name != "large" || pods[0].Status != "Unscheduled" ||
		!strings.Contains(pods[0].Message, "nodes are available") ||
		pods[1].Node != bound.Spec.NodeName || fmt.Sprint(pods[1].Containers[0].Indices) != "["+index+"]" {
		t.Errorf("pods: %+v, want some on card %s", pods, index)
	}
	table, problems, _ := kubectlMgpu(t, adminToken, "pods", "-A")
	if problems != "" || !strings.Contains(table, world.namespace) || strings.Contains(table, "\x1b") {
		t.Errorf("table of all namespaces:\n%s", table)
	}
}

// Shells ask for the names that may follow; see extender/kubectl/completion.h.
func TestKubectlMgpuCompletesNames(t *testing.T) {
	world := newWorld(t, 1)
	create(world.ctx, t, world.pod("with-cards").share(30, 1024))
	plain := world.pod("without-cards").share(30, 1024)
	plain.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	create(world.ctx, t, plain)
	complete := func(token string, words ...string) string {
		words = append([]string{"__complete", words[0], "--kubeconfig", plane.kubeconfig(token)}, words[1:]...)
		output, err := exec.Command(kubectlMgpuBinary(t), words...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", words, err, output)
		}
		return string(output)
	}
	for _, one := range []struct {
		token, want string
		words       []string
	}{
		{adminToken, "with-cards\t\n:4\n", []string{"explain", "-n", world.namespace, ""}},
		{adminToken, world.namespace + "\t\n:4\n", []string{"pods", "-n", world.namespace}},
		{adminToken, world.nodes[0] + "\t\n:4\n", []string{"cordon-card", world.nodes[0]}},
		{adminToken, "0\t\n", []string{"cordon-card", world.nodes[0], ""}},
		{nobodyToken, ":4\n", []string{"explain", "-n", world.namespace, ""}},
	} {
		if got := complete(one.token, one.words...); !strings.HasPrefix(got, one.want) {
			t.Errorf("%v: proposals %q, want %q", one.words, got, one.want)
		}
	}
}

func TestKubectlMgpuSaysWhatTheUserMayNotRead(t *testing.T) {
	for _, words := range [][]string{{"pods", "-A"}, {"nodes"}, {"explain", "p"}, {"cordon-card", "n", "0"}} {
		output, problems, code := kubectlMgpu(t, nobodyToken, words...)
		if code != 1 || output != "" || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, "forbidden") {
			t.Errorf("%v: exit code %d, %q, %q", words, code, output, problems)
		}
		if reads := words[0] == "nodes" || words[0] == "explain"; reads && !strings.Contains(problems, "the ClusterRole mgpu-viewer permits") {
			t.Errorf("%v: %q names no role", words, problems)
		}
	}
}

// What explain proposes is true: when the pod that it names ends, the waiting one is bound on that node.
func TestKubectlMgpuExplainsAPodThatWaits(t *testing.T) {
	world := newWorld(t, 1)
	world.fillEachCard(t, 60)
	create(world.ctx, t, world.pod("waits").share(60, 8000))
	waitPending(world.ctx, t, world.namespace, "waits", coreShort)
	text := world.show(t, "explain", "waits", "-n", world.namespace)
	for _, want := range []string{"/waits is pending: container c0 needs a card with mgpu-core 60 and mgpu-memory 8000 free; ", coreShort,
		"  on " + world.nodes[0] + " with mgpu-core 40 instead of 60 for container c0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	var explained struct {
		Releases []struct {
			Node string
			Pods []struct{ Namespace, Name string }
		}
	}
	if err := json.Unmarshal([]byte(world.show(t, "explain", "waits", "-n", world.namespace, "-o", "json")), &explained); err != nil {
		t.Fatal(err)
	}
	if len(explained.Releases) != 1 || len(explained.Releases[0].Pods) != 1 {
		t.Fatalf("releases: %+v", explained.Releases)
	}
	deleteNow(world.ctx, t, world.namespace, explained.Releases[0].Pods[0].Name)
	bound := waitBound(world.ctx, t, world.namespace, "waits")
	if bound.Spec.NodeName != explained.Releases[0].Node {
		t.Errorf("bound to %s, want %s", bound.Spec.NodeName, explained.Releases[0].Node)
	}
	waitFor(t, time.Minute, "the explanation of the bound pod", func() (bool, string) {
		text := world.show(t, "explain", "waits", "-n", world.namespace)
		return strings.Contains(text, "cards     c0: "+bound.Annotations[indexKeyPrefix+"c0"]) &&
			strings.Contains(text, "ranks "+bound.Spec.NodeName+" as number 1."), text
	})
}

// As many replicas as the simulation says are bound, and no more; the simulation itself changes nothing.
func TestKubectlMgpuSimulatesWhatHappens(t *testing.T) {
	world := newWorld(t, 2)
	create(world.ctx, t, world.pod("some").share(50, 8000))
	waitBound(world.ctx, t, world.namespace, "some")
	before := world.show(t, append([]string{"cards", "-o", "json"}, world.nodes...)...)
	pod := world.pod("replica").share(70, 8000).build()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	manifest, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pod.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	output, problems, code := world.tryShow(t, "simulate", "-f", file, "--replicas", "1000", "-o", "json")
	var simulated struct{ Replicas, Placed, Fitting int }
	if err := json.Unmarshal([]byte(output), &simulated); err != nil || code != 1 || problems != "" {
		t.Fatalf("exit code %d, want 1 where not all fit: %v %s%s", code, err, output, problems)
	}
	if want := 2*cardsOfEachNode - 1; simulated.Placed != want || simulated.Fitting != want {
		t.Errorf("%+v, want %d placed", simulated, want)
	}
	if after := world.show(t, append([]string{"cards", "-o", "json"}, world.nodes...)...); after != before {
		t.Errorf("the simulation changed the cards:\n%s\n%s", before, after)
	}
	for i := range simulated.Placed {
		name := fmt.Sprint("replica-", i)
		create(world.ctx, t, world.pod(name).share(70, 8000))
		waitBound(world.ctx, t, world.namespace, name)
	}
	create(world.ctx, t, world.pod("one-more").share(70, 8000))
	waitPending(world.ctx, t, world.namespace, "one-more", coreShort)
}

// A cordoned card keeps its pods and gets no new ones; a pod that waits for it is bound when it is uncordoned.
func TestKubectlMgpuCordonsACard(t *testing.T) {
	world := newWorld(t, 1)
	node := world.nodes[0]
	cordon := func(verb string, card int) {
		t.Helper()
		output, problems, code := kubectlMgpu(t, adminToken, verb, node, fmt.Sprint(card))
		if want := fmt.Sprintf("node/%s card %d %sed\n", node, card, strings.TrimSuffix(verb, "-card")); code != 0 || output != want {
			t.Fatalf("exit code %d: %q, want %q: %s", code, output, want, problems)
		}
	}
	create(world.ctx, t, world.pod("first").share(20, 1024))
	first := waitBound(world.ctx, t, world.namespace, "first").Annotations[indexKeyPrefix+"c0"]
	for card := range cardsOfEachNode {
		cordon("cordon-card", card)
	}
	waitFor(t, time.Minute, "the extender to know the cordoned cards", func() (bool, string) {
		cards := world.shownCards(t)
		return !slices.ContainsFunc(cards, func(card ShownCard) bool { return card.State != "Cordoned" }), fmt.Sprint(cards)
	})
	create(world.ctx, t, world.pod("second").share(20, 1024))
	waitPending(world.ctx, t, world.namespace, "second", "node(s) had too few cards that are not cordoned")
	if cards := get(world.ctx, t, world.namespace, "first").Annotations[indexKeyPrefix+"c0"]; cards != first {
		t.Errorf("the first pod has cards %q, want %q", cards, first)
	}
	const open = 3
	cordon("uncordon-card", open)
	second := waitBound(world.ctx, t, world.namespace, "second")
	if cards := second.Annotations[indexKeyPrefix+"c0"]; cards != fmt.Sprint(open) {
		t.Errorf("the second pod has cards %q, want %d", cards, open)
	}
	report := runDoctor(t, adminToken, "--url", fmt.Sprintf("http://127.0.0.1:%d", world.extender.metricsPort))
	if found := report.find("nodes", "note"); found == nil || !strings.Contains(fmt.Sprint(report.Findings), "cards are cordoned: 0,1,2,4") {
		t.Errorf("doctor does not show the cordoned cards: %+v", report.Findings)
	}
}
