package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"regexp"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Draw makes labels, taints and rules of few words, so that they often match.
type Draw struct{ *rand.Rand }

func (d Draw) of(words ...string) string { return words[d.Intn(len(words))] }
func (d Draw) key() string               { return d.of("a.example.com/a", "b", "c") }
func (d Draw) value() string             { return d.of("1", "2", "3", "x") }
func (d Draw) likely(percent int) bool   { return d.Intn(100) < percent }

func (d Draw) effect() corev1.TaintEffect {
	return corev1.TaintEffect(d.of("NoSchedule", "NoExecute", "PreferNoSchedule"))
}

// node returns a patch of a node.
func (d Draw) node() []byte {
	labels := map[string]string{}
	for range d.Intn(4) {
		labels[d.key()] = d.value()
	}
	taints := map[string]corev1.Taint{}
	for range max(0, d.Intn(4)-1) {
		taint := corev1.Taint{Key: d.key(), Value: d.of("", d.value()), Effect: d.effect()}
		taints[taint.Key+string(taint.Effect)] = taint
	}
	list := []corev1.Taint{}
	for taint := range maps.Values(taints) {
		list = append(list, taint)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels},
		"spec": map[string]any{"taints": list, "unschedulable": d.likely(20)}})
	if err != nil {
		panic(err)
	}
	return text
}

func (d Draw) toleration() corev1.Toleration {
	one := corev1.Toleration{Operator: corev1.TolerationOperator(d.of("", "Equal", "Exists"))}
	if one.Operator != corev1.TolerationOpExists || d.likely(80) {
		one.Key = d.of(d.key(), d.key(), "node.kubernetes.io/unschedulable")
	}
	if one.Operator != corev1.TolerationOpExists {
		one.Value = d.of("", d.value())
	}
	if d.likely(40) {
		one.Effect = d.effect()
	}
	return one
}

func (d Draw) expression() corev1.NodeSelectorRequirement {
	one := corev1.NodeSelectorRequirement{Key: d.key(),
		Operator: corev1.NodeSelectorOperator(d.of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))}
	switch one.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		one.Values = []string{d.value(), d.value()}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		one.Values = []string{d.of("0", "1", "2", "3", "02")}
	}
	return one
}

func (d Draw) term(nodes []string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for range d.Intn(3) {
		term.MatchExpressions = append(term.MatchExpressions, d.expression())
	}
	if d.likely(10) {
		term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name",
			Operator: corev1.NodeSelectorOperator(d.of("In", "NotIn")), Values: []string{d.of(nodes...)}}}
	}
	return term
}

// rules sets the rules of a pod about nodes, and says whether some are about names of nodes.
func (d Draw) rules(spec *corev1.PodSpec, nodes []string) (names bool) {
	for range d.Intn(5) {
		spec.Tolerations = append(spec.Tolerations, d.toleration())
	}
	if d.likely(25) {
		spec.NodeSelector = map[string]string{d.key(): d.value()}
	}
	if d.likely(60) {
		required := &corev1.NodeSelector{}
		for range 1 + d.Intn(2) {
			term := d.term(nodes)
			names = names || term.MatchFields != nil
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
		}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	return names
}

var (
	keptOut = regexp.MustCompile(`(\d+) (node\(s\) were unschedulable|node\(s\) had untolerated taint\(s\)|` +
		`node\(s\) didn't match Pod's node affinity/selector)`)
	letIn = regexp.MustCompile(`(\d+) Insufficient ` + regexp.QuoteMeta(coreResource))
)

// How many nodes a pod may be placed on, and how many others there are for each reason.
func verdictOfScheduler(message string) map[string]int {
	verdict := map[string]int{}
	for _, one := range keptOut.FindAllStringSubmatch(message, -1) {
		verdict[one[2]], _ = strconv.Atoi(one[1])
	}
	if one := letIn.FindStringSubmatch(message); one != nil {
		verdict["may be placed"], _ = strconv.Atoi(one[1])
	}
	return verdict
}

func (w *World) verdictOfExtender(t *testing.T, pod string) map[string]int {
	var explained struct {
		Reasons []struct {
			Reason  string
			Nodes   int
			KeptOut bool
		}
	}
	text := w.show(t, "explain", pod, "-n", w.namespace, "-o", "json")
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Fatal(err)
	}
	verdict := map[string]int{}
	for _, one := range explained.Reasons {
		if one.KeptOut {
			verdict[one.Reason] += one.Nodes
		} else {
			verdict["may be placed"] += one.Nodes
		}
	}
	return verdict
}

// No node has as many cards as the pods request, so that kube-scheduler says of each node that a pod may be
// placed on that it is insufficient, and of each other one why not.
func TestAdviceAgreesWithKubeSchedulerAboutWhereAPodMayGo(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("the seed is %d", seed)
	draw := Draw{rand.New(rand.NewSource(seed))}
	world := newWorld(t, 12)
	for _, node := range world.nodes {
		_, err := plane.admin.CoreV1().Nodes().Patch(world.ctx, node, types.MergePatchType, draw.node(), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	byName := map[string]bool{}
	for i := range 40 {
		pod := world.pod(fmt.Sprint("pod-", i)).container("c0", "6400", "")
		byName[pod.pod.Name] = draw.rules(&pod.pod.Spec, world.nodes)
		create(world.ctx, t, pod)
	}
	allowed := 0
	for name, hasNames := range byName {
		var theirs, ours map[string]int
		waitFor(t, time.Minute, "equal verdicts about "+name, func() (bool, string) {
			pod := get(world.ctx, t, world.namespace, name)
			message := scheduledCondition(pod)
			theirs, ours = verdictOfScheduler(message), world.verdictOfExtender(t, name)
			equal := maps.Equal(theirs, ours)
			if hasNames {
				// kube-scheduler examines only the nodes that the names leave.
				equal = theirs["may be placed"] == ours["may be placed"]
			}
			spec, _ := json.Marshal(pod.Spec)
			return equal, fmt.Sprintf("kube-scheduler says %v, the extender %v\n%s\n%s", theirs, ours, message, spec)
		})
		allowed += ours["may be placed"]
	}
	if allowed == 0 || allowed == 12*40 {
		t.Errorf("the pods may be placed on %d of %d nodes, which tests nothing", allowed, 12*40)
	}
}
