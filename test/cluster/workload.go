package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Workload is the output of `mgpu-sim trace --placements`: a cluster, and pods in order of arrival with
// their simulated placements.
type Workload struct {
	Nodes    []WorkloadNode `json:"nodes"`
	Arrivals []Arrival      `json:"arrivals"`
}

type WorkloadNode struct {
	Name          string `json:"name"`
	CPUMilli      int64  `json:"cpu_milli"`
	MemoryMiB     int64  `json:"memory_mib"`
	Model         string `json:"model"`
	Cards         int    `json:"cards"`
	CardMemoryMiB int64  `json:"card_memory_mib"`
}

// Arrival is a pod. Its core and card memory are the totals of all its cards.
type Arrival struct {
	Pod          string   `json:"pod"`
	CPUMilli     int64    `json:"cpu_milli"`
	MemoryMiB    int64    `json:"memory_mib"`
	Core         int64    `json:"core"`
	GPUMemoryMiB int64    `json:"gpu_memory_mib"`
	Models       []string `json:"models"`
	Node         string   `json:"node"` // "" if the pod fitted on no node
	Cards        []int    `json:"cards"`
}

// The number of pods that arrive from a trace of thousands.
const arrivalsMax = 400

// simulate runs the trace in the folder MGPU_TRACES, or the synthetic workload on every second of its
// nodes, so that some pods are rejected.
func simulate(t *testing.T, policy string) *Workload {
	t.Helper()
	binary := built(t, "bench/mgpu-sim")
	file := filepath.Join(t.TempDir(), "placements.json")
	arguments := []string{"trace", "--policy", policy, "--seeds", "42", "--memory", "reference",
		"--arrived-until", "140", "--placements", file}
	if traces := os.Getenv("MGPU_TRACES"); traces != "" {
		arguments = append(arguments, "--traces", traces, "--trace", "default")
	} else {
		arguments = append(arguments, "--nodes", everySecondNode(t))
	}
	if said, err := exec.Command(binary, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("mgpu-sim: %v\n%s", err, said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written struct{ Seeds []Workload }
	if err := json.Unmarshal(text, &written); err != nil || len(written.Seeds) != 1 {
		t.Fatalf("%s has %d seeds: %v", file, len(written.Seeds), err)
	}
	workload := &written.Seeds[0]
	workload.Arrivals = workload.Arrivals[:min(len(workload.Arrivals), arrivalsMax)]
	return workload
}

func everySecondNode(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(repositoryPath("bench", "trace", "synthetic", "nodes.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	for i, line := range strings.SplitAfter(string(text), "\n") {
		if i == 0 || i%2 == 1 {
			kept.WriteString(line)
		}
	}
	path := filepath.Join(t.TempDir(), "nodes.csv")
	if err := os.WriteFile(path, []byte(kept.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// pod returns a pod with one container.
func (a Arrival) pod(namespace, name string) *PodBuilder {
	builder := newPod(namespace, name)
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(a.CPUMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(a.MemoryMiB<<20, resource.BinarySI),
	}
	limits := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]int64{
		coreResource: a.Core, memoryResource: a.GPUMemoryMiB} {
		if amount > 0 {
			limits[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	builder.pod.Spec.Containers = []corev1.Container{{Name: "c0", Image: "none",
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}
	if len(a.Models) > 0 {
		builder.annotation(domain+"/gpu-model", strings.Join(a.Models, ","))
	}
	return builder
}

// onlyOn adds a node affinity for one node.
func (b *PodBuilder) onlyOn(node string) *PodBuilder {
	b.pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
	return b
}
