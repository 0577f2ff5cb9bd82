package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	cardsPolicy = "mgpu-cards-of-bound-pods"
	nodePolicy  = "mgpu-cards-need-a-scheduler"
)

// PolicyWorld is a namespace with a user who may do everything with its pods except bind them.
type PolicyWorld struct {
	ctx       context.Context
	namespace string
	tenant    kubernetes.Interface
}

func newPolicyWorld(t *testing.T) *PolicyWorld {
	t.Helper()
	ctx := context.Background()
	world := &PolicyWorld{ctx: ctx, namespace: newNamespace(ctx, t), tenant: clientOf(t, nobodyToken)}
	grantPods(ctx, t, world.namespace, "nobody",
		"pods", "pods/status", "pods/ephemeralcontainers", "pods/resize", "pods/eviction")
	world.waitPolicies(t)
	return world
}

func clientOf(t *testing.T, token string) kubernetes.Interface {
	t.Helper()
	client, err := plane.clientAs(token)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// waitPolicies waits until the API server enforces both policies, and the rights of the tenant.
func (w *PolicyWorld) waitPolicies(t *testing.T) {
	t.Helper()
	for policy, pod := range map[string]*PodBuilder{
		cardsPolicy: w.pod("probe").annotation(assumedKey, "true"),
		nodePolicy:  w.pod("probe").share(10, 1024).onNode("no-node"),
	} {
		waitFor(t, time.Minute, "policy "+policy, func() (bool, string) {
			err := w.create(w.tenant, pod, metav1.DryRunAll)
			return refusedBy(policy, err), fmt.Sprint(err)
		})
	}
}

func refusedBy(policy string, err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
}

func (w *PolicyWorld) pod(name string) *PodBuilder {
	return newPod(w.namespace, name).scheduler("nobody").container("app", "", "")
}

// onNode sets the node, as a user who bypasses the schedulers does.
func (b *PodBuilder) onNode(node string) *PodBuilder {
	b.pod.Spec.NodeName = node
	return b
}

func (w *PolicyWorld) create(client kubernetes.Interface, pod *PodBuilder, dryRun ...string) error {
	_, err := client.CoreV1().Pods(w.namespace).Create(w.ctx, pod.build(), metav1.CreateOptions{DryRun: dryRun})
	return err
}

// createBound creates a pod as the tenant and binds it as the extender does.
func (w *PolicyWorld) createBound(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	if err := w.create(w.tenant, w.pod(name).share(30, 1024)); err != nil {
		t.Fatal(err)
	}
	pod := get(w.ctx, t, w.namespace, name)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, UID: pod.UID,
			Annotations: map[string]string{assumedKey: "true", indexKeyPrefix + "c1": "0"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "no-such-node"}}
	if err := w.bind(clientOf(t, extenderToken), binding); err != nil {
		t.Fatalf("the extender cannot bind: %v", err)
	}
	pod = get(w.ctx, t, w.namespace, name)
	if pod.Annotations[indexKeyPrefix+"c1"] != "0" || pod.Annotations[assumedKey] != "true" {
		t.Fatalf("the bound pod has the annotations %v", pod.Annotations)
	}
	return pod
}

func (w *PolicyWorld) bind(client kubernetes.Interface, binding *corev1.Binding) error {
	return client.CoreV1().Pods(w.namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
}

func (w *PolicyWorld) patch(client kubernetes.Interface, kind types.PatchType, name, body string,
	subresources ...string) error {
	options := metav1.PatchOptions{}
	if kind == types.ApplyPatchType {
		force := true
		options.FieldManager, options.Force = "tenant", &force
	}
	_, err := client.CoreV1().Pods(w.namespace).Patch(w.ctx, name, kind, []byte(body), options, subresources...)
	return err
}

func TestNoPodIsCreatedWithCards(t *testing.T) {
	world := newPolicyWorld(t)
	for user, client := range map[string]kubernetes.Interface{"tenant": world.tenant, "administrator": plane.admin} {
		for name, pod := range map[string]*PodBuilder{
			"assumed":       world.pod("made").share(30, 1024).annotation(assumedKey, "true"),
			"not assumed":   world.pod("made").share(30, 1024).annotation(assumedKey, "false"),
			"index":         world.pod("made").share(30, 1024).annotation(indexKeyPrefix+"c1", "0"),
			"empty index":   world.pod("made").share(30, 1024).annotation(indexKeyPrefix+"c1", ""),
			"without cards": world.pod("made").annotation(indexKeyPrefix+"app", "0"),
			"init":          world.pod("made").initShare(30, 1024).annotation(indexKeyPrefix+"i0", "0"),
			"sidecar":       world.pod("made").sidecar(30, 1024).annotation(indexKeyPrefix+"i0", "0"),
		} {
			if err := world.create(client, pod); !refusedBy(cardsPolicy, err) {
				t.Errorf("%s creates a pod, %s: %v, want refused by %s", user, name, err, cardsPolicy)
			}
		}
	}
	for name, pod := range map[string]*PodBuilder{
		"wishes": world.pod("wishes").share(100, 1024).annotation(multipleGPUKey, "0,2"),
		"similar": world.pod("similar").share(30, 1024).annotation(domain+"/assumed-by", "me").
			annotation(domain+"/gpu-index", "0").annotation("example.com/gpu-index-container-c1", "0").
			annotation(indexKeyPrefix+"no-container", "0"),
	} {
		if err := world.create(world.tenant, pod); err != nil {
			t.Errorf("the tenant cannot create a pod, %s: %v", name, err)
		}
	}
}

// edits returns the requests that try to change the annotations of a bound pod, for each resource that
// has the metadata of the pod.
func (w *PolicyWorld) edits(client kubernetes.Interface, pod *corev1.Pod) map[string]func() error {
	edits := map[string]func() error{}
	pods := client.CoreV1().Pods(w.namespace)
	key := indexKeyPrefix + "c1"
	escaped := strings.ReplaceAll(key, "/", "~1")
	for name, body := range map[string]string{
		"another card":   fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, key),
		"empty":          fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, key),
		"another name":   fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, indexKeyPrefix+"app"),
		"not assumed":    fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, assumedKey),
		"no index":       fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key),
		"no assumed":     fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, assumedKey),
		"no annotations": `{"metadata":{"annotations":null}}`,
	} {
		for _, subresource := range []string{"", "status"} {
			edits["merge patch of "+subresource+": "+name] = func() error {
				return w.patch(client, types.MergePatchType, pod.Name, body, subresourceList(subresource)...)
			}
			edits["strategic patch of "+subresource+": "+name] = func() error {
				return w.patch(client, types.StrategicMergePatchType, pod.Name, body, subresourceList(subresource)...)
			}
		}
	}
	edits["JSON patch: remove"] = func() error {
		return w.patch(client, types.JSONPatchType, pod.Name,
			fmt.Sprintf(`[{"op":"remove","path":"/metadata/annotations/%s"}]`, escaped))
	}
	edits["JSON patch: move"] = func() error {
		return w.patch(client, types.JSONPatchType, pod.Name,
			fmt.Sprintf(`[{"op":"move","from":"/metadata/annotations/%s","path":"/metadata/annotations/a"}]`, escaped))
	}
	edits["apply"] = func() error {
		return w.patch(client, types.ApplyPatchType, pod.Name, fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":{%q:"1"}}}`, pod.Name, key))
	}
	for name, change := range map[string]func(*corev1.Pod){
		"another card":   func(pod *corev1.Pod) { pod.Annotations[key] = "1" },
		"no index":       func(pod *corev1.Pod) { delete(pod.Annotations, key) },
		"no annotations": func(pod *corev1.Pod) { pod.Annotations = nil },
	} {
		edited := func() *corev1.Pod {
			edited := pod.DeepCopy()
			change(edited)
			return edited
		}
		edits["update: "+name] = func() error {
			_, err := pods.Update(w.ctx, edited(), metav1.UpdateOptions{})
			return err
		}
		edits["update of status: "+name] = func() error {
			_, err := pods.UpdateStatus(w.ctx, edited(), metav1.UpdateOptions{})
			return err
		}
	}
	return edits
}

func subresourceList(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func (w *PolicyWorld) expectCards(t *testing.T, before *corev1.Pod, after string) {
	t.Helper()
	if pod := get(w.ctx, t, w.namespace, before.Name); !maps.Equal(pod.Annotations, before.Annotations) {
		t.Fatalf("after %s the pod has the annotations %v, want %v", after, pod.Annotations, before.Annotations)
	}
}

func TestNobodyEditsTheCardsOfABoundPod(t *testing.T) {
	world := newPolicyWorld(t)
	pod := world.createBound(t, "bound")
	for user, client := range map[string]kubernetes.Interface{"tenant": world.tenant, "administrator": plane.admin} {
		for name, edit := range world.edits(client, pod) {
			if err := edit(); !refusedBy(cardsPolicy, err) {
				t.Errorf("%s, %s: %v, want refused by %s", user, name, err, cardsPolicy)
			}
			world.expectCards(t, pod, name)
		}
	}
}

// These resources do not take the metadata of a request, so the API server may accept it.
func TestOtherSubresourcesDoNotEditTheCardsOfABoundPod(t *testing.T) {
	world := newPolicyWorld(t)
	pod := world.createBound(t, "bound")
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1",%q:null}}}`, indexKeyPrefix+"c1", assumedKey)
	for _, subresource := range []string{"ephemeralcontainers", "resize"} {
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			err := world.patch(world.tenant, kind, pod.Name, body, subresource)
			t.Logf("%s of %s: %v", kind, subresource, err)
			world.expectCards(t, pod, subresource)
		}
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Annotations: map[string]string{indexKeyPrefix + "c1": "1"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "other"}}
	if err := world.bind(world.tenant, binding); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant binds: %v, want forbidden", err)
	}
	err := world.tenant.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces", world.namespace, "bindings").
		Body(binding).Do(world.ctx).Error()
	if !apierrors.IsForbidden(err) {
		t.Errorf("the tenant binds by the resource bindings: %v, want forbidden", err)
	}
	if err := world.bind(clientOf(t, extenderToken), binding); !apierrors.IsConflict(err) {
		t.Errorf("a second binding: %v, want a conflict", err)
	}
	world.expectCards(t, pod, "bindings")
}

func TestNobodyGivesCardsToAPendingPod(t *testing.T) {
	world := newPolicyWorld(t)
	if err := world.create(world.tenant, world.pod("pending").share(30, 1024)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{assumedKey, indexKeyPrefix + "c1"} {
		err := world.patch(world.tenant, types.MergePatchType, "pending",
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, key))
		if !refusedBy(cardsPolicy, err) {
			t.Errorf("%s: %v, want refused by %s", key, err, cardsPolicy)
		}
	}
}

// The requests of kubelet, kube-scheduler and controllers, and those of users that do not concern cards.
func TestOrdinaryUpdatesOfPodsWork(t *testing.T) {
	world := newPolicyWorld(t)
	for _, name := range []string{"bound", "evicted"} {
		world.createBound(t, name)
	}
	if err := world.create(world.tenant, world.pod("plain")); err != nil {
		t.Fatal(err)
	}
	const ready = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	const label = `{"metadata":{"labels":{"app":"train"},"finalizers":["example.com/keep"]}}`
	for _, one := range []struct {
		who, token, pod, body, subresource string
	}{
		{"kubelet", kubeletToken, "bound", ready, "status"},
		{"kubelet", kubeletToken, "plain", ready, "status"},
		{"kube-scheduler", schedulerToken, "plain", `{"status":{"nominatedNodeName":"n"}}`, "status"},
		{"a controller", adminToken, "bound", label, ""},
		{"a controller", adminToken, "plain", label, ""},
		{"the tenant", nobodyToken, "bound", `{"metadata":{"annotations":{"note":"mine"}}}`, ""},
		{"the tenant", nobodyToken, "plain", `{"metadata":{"annotations":{"note":"mine"}}}`, ""},
		{"the tenant", nobodyToken, "bound", `{"metadata":{"annotations":{"note":null}}}`, ""},
		{"the tenant", nobodyToken, "plain", `{"metadata":{"annotations":null}}`, ""},
		{"the tenant", nobodyToken, "bound",
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"0,2"}}}`, multipleGPUKey), ""},
		{"the tenant", nobodyToken, "bound",
			`{"spec":{"ephemeralContainers":[{"name":"debug","image":"none"}]}}`, "ephemeralcontainers"},
		{"a controller", adminToken, "bound", `{"metadata":{"finalizers":null}}`, ""},
		{"a controller", adminToken, "plain", `{"metadata":{"finalizers":null}}`, ""},
	} {
		err := world.patch(clientOf(t, one.token), types.StrategicMergePatchType, one.pod, one.body,
			subresourceList(one.subresource)...)
		if err != nil {
			t.Errorf("%s patches %s of %s with %s: %v", one.who, one.subresource, one.pod, one.body, err)
		}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: world.namespace}}
	if err := world.tenant.CoreV1().Pods(world.namespace).EvictV1(world.ctx, eviction); err != nil {
		t.Errorf("eviction: %v", err)
	}
	now := int64(0)
	for _, name := range []string{"bound", "plain"} {
		if err := world.tenant.CoreV1().Pods(world.namespace).Delete(world.ctx, name,
			metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Errorf("deletion: %v", err)
		}
	}
}

func TestOnlyWhoMayBindPutsAPodWithCardsOnANode(t *testing.T) {
	world := newPolicyWorld(t)
	onlyMemory := world.pod("memory").container("gpu", "", "1024")
	onlyCore := world.pod("core").container("gpu", "100", "")
	for name, pod := range map[string]*PodBuilder{
		"a share": world.pod("share").share(1, 1024), "whole cards": onlyCore, "only memory": onlyMemory,
		"an init container": world.pod("init").initShare(1, 1024), "a sidecar": world.pod("side").sidecar(1, 1024),
	} {
		pod.onNode("no-such-node")
		if err := world.create(world.tenant, pod); !refusedBy(nodePolicy, err) {
			t.Errorf("the tenant creates %s on a node: %v, want refused by %s", name, err, nodePolicy)
		}
		if err := world.create(plane.admin, pod, metav1.DryRunAll); err != nil {
			t.Errorf("an administrator creates %s on a node: %v", name, err)
		}
		if err := world.create(world.tenant, pod.onNode("")); err != nil {
			t.Errorf("the tenant creates %s: %v", name, err)
		}
	}
	if err := world.create(world.tenant, world.pod("plain").onNode("no-such-node")); err != nil {
		t.Errorf("the tenant creates a pod without cards on a node: %v", err)
	}
	name := "share"
	err := world.patch(world.tenant, types.StrategicMergePatchType, name, `{"spec":{"nodeName":"no-such-node"}}`)
	if !apierrors.IsInvalid(err) {
		t.Errorf("the tenant sets the node of a pending pod: %v, want invalid", err)
	}
}
