package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// WrongPod is a pod that somebody may write, and what is said of it when it is created. In all texts CORE, MEMORY and
// MULTIPLE are mgpu-core, mgpu-memory and container-multiple-gpu with the domain, which DOMAIN is.
type WrongPod struct {
	what       string
	containers []string // as in "app CORE=50 MEMORY=1024"; those of inits begin with "init:"
	annotation string   // as in "MULTIPLE=2,1"
	refused    string   // by the policy mgpu-requests, with the sentence of the extender
	otherwise  string   // by the API server itself, or by another policy
	warned     string   // by the policy mgpu-request-warnings
}

const namedForm = `must have the name of a container and a number from 0 to 64 in each entry, such as "train=2,side=0"; `

var wrongPods = []WrongPod{
	{what: "an amount in words", containers: []string{"app CORE=half MEMORY=1024"}, otherwise: "quantities must match"},
	{what: "a percentage", containers: []string{"app CORE=30% MEMORY=1024"}, otherwise: "quantities must match"},
	{what: "a negative amount", containers: []string{"app CORE=-30 MEMORY=1024"}, otherwise: "must be greater than or equal to 0"},
	{what: "a fraction", containers: []string{"app CORE=0.5 MEMORY=1024"}, otherwise: "must be an integer"},
	{what: "too many digits", containers: []string{"app CORE=100000000000000000000"}, otherwise: "must be an integer"},
	{what: "requests without limits", containers: []string{"app requests:CORE=30 requests:MEMORY=1024"},
		otherwise: "Limit must be set for non overcommitable resources"},
	{what: "other requests than limits", containers: []string{"app CORE=30 MEMORY=1024 requests:CORE=20"}, otherwise: "must be equal to"},
	{what: "a name in capitals", containers: []string{"App CORE=30 MEMORY=1024"}, otherwise: "a lowercase RFC 1123 label must consist of"},
	{what: "a resource without domain", containers: []string{"app mgpu-core=30 MEMORY=1024"},
		otherwise: "must be a standard resource"},
	{what: "cards in the manifest", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/assumed=true",
		otherwise: "are written only when a scheduler binds the pod"},
	{what: "memory in bytes", containers: []string{"app CORE=30 MEMORY=20Gi"},
		refused: `container "app" requests MEMORY 21474836480 MiB of one card; it must be at most 16777216 MiB ` +
			"(the unit is MiB: 8 GiB is 8192 or 8Ki, not 8Gi)"},
	{what: "memory with a unit", containers: []string{"app CORE=30 MEMORY=8Mi"},
		warned: `container "app" requests MEMORY 8Mi; the unit is MiB: 8 GiB is 8192 or 8Ki`},
	{what: "no memory", containers: []string{"app CORE=50"},
		refused: `container "app" asks for mgpu-core 50 and no mgpu-memory; add mgpu-memory in MiB, or ask for a whole card (mgpu-core 100)`},
	{what: "no core", containers: []string{"app MEMORY=1024"}, refused: `container "app" requests MEMORY 1024 without CORE; both are needed`},
	{what: "an unknown resource", containers: []string{"app DOMAIN/mgpu-cores=50 MEMORY=1024"},
		refused: `container "app" requests MEMORY 1024 without CORE; both are needed`,
		warned:  "mgpu does not know the resource DOMAIN/mgpu-cores, which no node has; it knows mgpu-core and mgpu-memory"},
	{what: "one and a half cards", containers: []string{"app CORE=150 MEMORY=1024"},
		refused: `container "app" requests CORE 150; over 100 it must be a multiple of 100, or annotation MULTIPLE must contain its number of cards`},
	{what: "65 cards", containers: []string{"app CORE=6500"},
		refused: `container "app" requests CORE 6500, that is 65 cards; a container may have at most 64`},
	{what: "memory that cannot be divided", containers: []string{"app CORE=300 MEMORY=1000"},
		refused: `container "app" requests MEMORY 1000, which is not divisible by its 3 cards`},
	{what: "core that cannot be divided", containers: []string{"app CORE=55 MEMORY=1024"}, annotation: "MULTIPLE=2",
		refused: `container "app" requests CORE 55, which is not divisible by its 2 cards`},
	{what: "more than the cards", containers: []string{"app CORE=300 MEMORY=1024"}, annotation: "MULTIPLE=2",
		refused: `container "app" requests CORE 300 on 2 cards, that is 150 of each; it must be at most 100`},
	{what: "parts without memory", containers: []string{"app CORE=100"}, annotation: "MULTIPLE=2",
		refused: `container "app" asks for mgpu-core 100 on 2 cards and no mgpu-memory; add mgpu-memory in MiB, or ask for whole ` +
			"cards (mgpu-core 200)"},
	{what: "a number for a container that is not there", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=2,1",
		refused: `annotation MULTIPLE "2,1" has 2 numbers; the pod has 1 container, and each needs a number`},
	{what: "no number for a container", containers: []string{"app CORE=100 MEMORY=1024", "log"}, annotation: "MULTIPLE=2",
		refused: `annotation MULTIPLE "2" has 1 number; the pod has 2 containers, and each needs a number`},
	{what: "more than one card", containers: []string{"app CORE=150 MEMORY=1024"}, annotation: "MULTIPLE=1",
		refused: `container "app" requests CORE 150 on 1 card, that is 150 of each; it must be at most 100`},
	{what: "a word for a number", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=two",
		refused: `annotation MULTIPLE: card count list "two" must be one number from 0 to 64 for each container, separated by ` +
			`commas, such as "2,0,1"; found "two"`},
	{what: "a container that is not there", containers: []string{"app CORE=100 MEMORY=1024", "log"}, annotation: "MULTIPLE=trian=1,app=2,lgo=0",
		refused: `annotation MULTIPLE "trian=1,app=2,lgo=0" names "lgo", which is no container in spec.containers`},
	{what: "an init container in the annotation", containers: []string{"app CORE=30 MEMORY=1024", "init:load CORE=30 MEMORY=1024"},
		annotation: "MULTIPLE=load=1", refused: `annotation MULTIPLE "load=1" names "load", which is no container in spec.containers`},
	{what: "a container twice", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=app=2, app =2,x",
		refused: `annotation MULTIPLE: card count list "app=2, app =2,x" names container "app" twice`},
	{what: "names and numbers", containers: []string{"app CORE=100 MEMORY=1024", "log"}, annotation: "MULTIPLE=app=2, 0",
		refused: `annotation MULTIPLE: card count list "app=2, 0" ` + namedForm + `found " 0"`},
	{what: "no name", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE= =2",
		refused: `annotation MULTIPLE: card count list " =2" ` + namedForm + `found " =2"`},
	{what: "a name without a number", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=app=",
		refused: `annotation MULTIPLE: card count list "app=" ` + namedForm + `found "app="`},
	{what: "two numbers of a name", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=app=2=2",
		refused: `annotation MULTIPLE: card count list "app=2=2" ` + namedForm + `found "app=2=2"`},
	{what: "too many cards of a name", containers: []string{"app CORE=100 MEMORY=1024"}, annotation: "MULTIPLE=app=65",
		refused: `annotation MULTIPLE: card count list "app=65" ` + namedForm + `found "app=65"`},
	{what: "no card for a named container with requests", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "MULTIPLE=app=0",
		refused: `container "app" requests CORE 30 but has 0 in annotation MULTIPLE; its entry must be 1 or more`},
	{what: "a card for a named container without requests", containers: []string{"app CORE=30 MEMORY=1024", "log"},
		annotation: "MULTIPLE=log=1", refused: `container "log" has 1 in annotation MULTIPLE but requests no CORE; its entry must be 0`},
	{what: "no card for a container with requests", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "MULTIPLE=0",
		refused: `container "app" requests CORE 30 but has 0 in annotation MULTIPLE; its entry must be 1 or more`},
	{what: "a card for a container without requests", containers: []string{"app CORE=30 MEMORY=1024", "log"}, annotation: "MULTIPLE=1,1",
		refused: `container "log" has 1 in annotation MULTIPLE but requests no CORE; its entry must be 0`},
	{what: "little memory", containers: []string{"app CORE=30 MEMORY=8"},
		refused: `container "app" requests MEMORY 8 MiB of one card; it must be at least 256 MiB`},
	{what: "little memory of an init container", containers: []string{"app CORE=30 MEMORY=1024", "init:load CORE=30 MEMORY=8"},
		refused: `container "load" requests MEMORY 8 MiB of one card; it must be at least 256 MiB`},
	{what: "an unknown policy", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/mgpu-policy=bin-pack",
		refused: "annotation DOMAIN/mgpu-policy: policy must be equilibrium, binpack, spread, or <node policy>/<card policy>, " +
			`found "bin-pack"; the published policies are only in mgpu-sim trace`},
	{what: "an unknown value of gpu-links", containers: []string{"app CORE=200"}, annotation: "DOMAIN/gpu-links=nvlink",
		refused: `annotation DOMAIN/gpu-links must be required, preferred or ignored, found "nvlink"`},
	{what: "an empty name", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/gpu-uuid=GPU-1,,GPU-2",
		refused: `annotation DOMAIN/gpu-uuid: name list "GPU-1,,GPU-2" must be names separated by commas; one of them is empty`},
	{what: "a long name", containers: []string{strings.Repeat("a", 44) + " CORE=30 MEMORY=1024"},
		refused: `container "` + strings.Repeat("a", 44) + `" has a name of 44 characters; a container that requests cards may have at most 43`},
	{what: "an unknown annotation", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/gpu-modell=A100",
		warned: "mgpu does not know the annotation DOMAIN/gpu-modell, and ignores it; it knows container-multiple-gpu, mgpu-policy, " +
			"gpu-model, gpu-model-exclude, gpu-uuid, gpu-uuid-exclude and gpu-links"},
	{what: "cards of NVIDIA's device plugin as well", containers: []string{"app CORE=30 MEMORY=1024 nvidia.com/gpu=1"},
		warned: `container "app" requests nvidia.com/gpu, which nodes of mgpu do not have; kubectl mgpu convert rewrites it`},
	// The cluster knows the cards, and the policy does not.
	{what: "a model that no card has", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/gpu-model=A100"},
	// These are none of mgpu's pods.
	{what: "another domain", containers: []string{"app vke.volcengine.io/mgpu-core=30"}},
	{what: "cards of NVIDIA's device plugin", containers: []string{"app nvidia.com/gpu=1"}, annotation: "DOMAIN/gpu-modell=A100"},
}

var goodPods = []WrongPod{
	{what: "a share", containers: []string{"app CORE=30 MEMORY=1024"}},
	{what: "a share in thousands", containers: []string{"app CORE=30 MEMORY=8k"}},
	{what: "a share in 1024 MiB", containers: []string{"app CORE=30 MEMORY=8Ki"}},
	{what: "a whole card", containers: []string{"app CORE=100"}},
	{what: "64 cards", containers: []string{"app CORE=6400"}},
	{what: "two cards with memory", containers: []string{"app CORE=200 MEMORY=2048"}},
	{what: "parts of two cards", containers: []string{"app CORE=60 MEMORY=2048", "log"}, annotation: "MULTIPLE=2, 0"},
	// A webhook may inject a container at any position.
	{what: "an injected sidecar", containers: []string{"proxy", "app CORE=60 MEMORY=2048"}, annotation: "MULTIPLE=app=2"},
	{what: "names in another order", containers: []string{"app CORE=60 MEMORY=2048", "log", "eval CORE=200"},
		annotation: "MULTIPLE= eval = 2 ,log=0,app=4"},
	{what: "a named container without a number", containers: []string{"app CORE=60 MEMORY=2048", "eval CORE=200"},
		annotation: "MULTIPLE=app=2"},
	{what: "an init container", containers: []string{"app CORE=30 MEMORY=1024", "init:load CORE=100"}, annotation: "MULTIPLE=1"},
	{what: "no amount", containers: []string{"app CORE=0 MEMORY=0"}},
	{what: "two policies", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/mgpu-policy=spread/binpack"},
	{what: "linked cards", containers: []string{"app CORE=200"}, annotation: "DOMAIN/gpu-links=required"},
	{what: "models", containers: []string{"app CORE=30 MEMORY=1024"}, annotation: "DOMAIN/gpu-model-exclude=T4, A100"},
}

// in returns the pod with the names of a domain.
func (p WrongPod) in(domain string) WrongPod {
	names := strings.NewReplacer("CORE", domain+"/mgpu-core", "MEMORY", domain+"/mgpu-memory",
		"MULTIPLE", domain+"/container-multiple-gpu", "DOMAIN", domain)
	containers := []string{}
	for _, one := range p.containers {
		containers = append(containers, names.Replace(one))
	}
	return WrongPod{p.what, containers, names.Replace(p.annotation), names.Replace(p.refused), p.otherwise, names.Replace(p.warned)}
}

func (p WrongPod) manifest() *unstructured.Unstructured {
	lists := map[string][]any{}
	for _, text := range p.containers {
		list := "containers"
		text, isInit := strings.CutPrefix(text, "init:")
		if isInit {
			list = "initContainers"
		}
		words := strings.Fields(text)
		limits, requests := map[string]any{}, map[string]any{}
		for _, word := range words[1:] {
			name, amount, _ := strings.Cut(word, "=")
			if request, isRequest := strings.CutPrefix(name, "requests:"); isRequest {
				requests[request] = amount
			} else {
				limits[name] = amount
			}
		}
		lists[list] = append(lists[list], map[string]any{"name": words[0], "image": "busybox",
			"resources": map[string]any{"limits": limits, "requests": requests}})
	}
	annotations := map[string]any{}
	if key, value, found := strings.Cut(p.annotation, "="); found {
		annotations[key] = value
	}
	spec := map[string]any{"schedulerName": "nobody"}
	for name, list := range lists {
		spec[name] = list
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "app", "annotations": annotations}, "spec": spec}}
}

// Warnings are those of the API server since the last call.
type Warnings struct {
	lock  sync.Mutex
	texts []string
}

func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.texts = append(w.texts, text)
}

func (w *Warnings) take() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// RequestsWorld has the policies of the chart about requests.
type RequestsWorld struct {
	pods     dynamic.ResourceInterface
	warnings Warnings
	extender *Extender
}

func newRequestsWorld(t *testing.T, domain string) *RequestsWorld {
	t.Helper()
	ctx := context.Background()
	world := &RequestsWorld{}
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = &world.warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(ctx, t)
	world.pods = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	before, err := world.pods.Create(ctx, wrongPodNamed(t, "no memory").in(domain).manifest(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	installPolicies(t, []string{"--set", "resourceDomain=" + domain}, "mgpu-requests", "mgpu-request-warnings", "mgpu-cards-of-bound-pods")
	for _, what := range []string{"no memory", "an unknown annotation", "cards in the manifest"} {
		pod := wrongPodNamed(t, what).in(domain)
		waitFor(t, time.Minute, "the policy about "+what, func() (bool, string) {
			err := world.create(pod)
			warned := world.warnings.take()
			return err != nil || len(warned) > 0, fmt.Sprint(err, warned)
		})
	}
	// A pod that is there already is not touched.
	for _, subresources := range [][]string{nil, {"status"}} {
		_, err := world.pods.Patch(ctx, before.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}},"status":{"message":"a"}}`), metav1.PatchOptions{}, subresources...)
		if warned := world.warnings.take(); err != nil || len(warned) > 0 {
			t.Errorf("an update of an earlier pod: %v %v", err, warned)
		}
	}
	world.extender = plane.extenderOn(t, "http", http.DefaultClient, "--resource-domain", domain)
	world.extender.follow(plane.kubeconfig(adminToken))
	world.extender.start(t)
	world.extender.waitReady(t)
	return world
}

func wrongPodNamed(t *testing.T, what string) WrongPod {
	t.Helper()
	at := slices.IndexFunc(wrongPods, func(one WrongPod) bool { return one.what == what })
	if at < 0 {
		t.Fatal(what)
	}
	return wrongPods[at]
}

// create tries to create the pod.
func (w *RequestsWorld) create(pod WrongPod) error {
	manifest := pod.manifest()
	manifest.SetName("try")
	_, err := w.pods.Create(context.Background(), manifest, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// filter returns what the extender answers about a pod that the API server would have stored.
func (w *RequestsWorld) filter(t *testing.T, pod WrongPod) string {
	t.Helper()
	var typed corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod.manifest().Object, &typed); err != nil {
		t.Fatal(err)
	}
	typed.Namespace, typed.UID = "default", types.UID(pod.what)
	status, answer, err := w.extender.post("/mgpu/filter", filterBody(t, typed, []string{"no-such-node"}))
	if err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	return strings.ReplaceAll(answer, `\"`, `"`)
}

// check creates a pod, and compares what is said.
func (w *RequestsWorld) check(t *testing.T, pod WrongPod) {
	t.Helper()
	err := w.create(pod)
	switch {
	case pod.refused != "":
		if err == nil || !strings.HasSuffix(err.Error(), "denied request: "+pod.refused) {
			t.Errorf("the API server says %v,\nwant %s", err, pod.refused)
		}
		if answer := w.filter(t, pod); !strings.Contains(answer, pod.refused) {
			t.Errorf("the extender says %s,\nwant %s", answer, pod.refused)
		}
	case pod.otherwise != "":
		if err == nil || !strings.Contains(err.Error(), pod.otherwise) {
			t.Errorf("the API server says %v,\nwant %s", err, pod.otherwise)
		}
	case err != nil:
		t.Errorf("the API server says %v", err)
	}
	said := strings.Join(w.warnings.take(), "\n")
	if pod.warned == "" && pod.otherwise == "" && said != "" || !strings.HasSuffix(said, pod.warned) {
		t.Errorf("the API server warns %q,\nwant %q", said, pod.warned)
	}
}

func TestChartSaysOfEachWrongPodWhatIsWrong(t *testing.T) {
	for _, domain := range []string{domain, "gpus.example.com"} {
		t.Run(strings.ReplaceAll(domain, ".", "-"), func(t *testing.T) {
			world := newRequestsWorld(t, domain)
			for _, pod := range slices.Concat(wrongPods, goodPods) {
				t.Run(pod.what, func(t *testing.T) { world.check(t, pod.in(domain)) })
			}
		})
	}
}
