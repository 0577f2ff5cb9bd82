package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// MigrationCase is an entry of test/golden/migration/cases.yaml, which describes the fields.
type MigrationCase struct {
	Name, Settings, File, Refused string
	Limits, Labels, Annotations   map[string]string
	Want                          *MigrationResult
	Invalid                       bool
}

type MigrationResult struct {
	Core, Memory int64
	Annotations  map[string]string
}

// migrationSettings are the values of the chart for each `settings` of a case.
var migrationSettings = map[string]string{
	"":       "migration.hami.enabled=true",
	"chosen": "migration.hami.core=10,migration.hami.cardMemoryMiB=16001,migration.aliyun.core=10,migration.aliyun.memoryUnit=MiB",
	"gib":    "migration.aliyun.core=10",
}

func migrationFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(repositoryPath("test", "golden", "migration", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func migrationCases(t testing.TB) []MigrationCase {
	t.Helper()
	var cases []MigrationCase
	if err := yaml.UnmarshalStrict([]byte(migrationFile(t, "cases.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// MigrationWorld has a namespace for each of migrationSettings, with the policies of the chart, and one
// without policies.
type MigrationWorld struct {
	client     dynamic.Interface
	namespaces map[string]string // by settings
	plain      string
}

func newMigrationWorld(t *testing.T, resourceDomain string, settings ...string) *MigrationWorld {
	t.Helper()
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 2000, 2000
	world := &MigrationWorld{namespaces: map[string]string{}, plain: newNamespace(ctx, t)}
	if world.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, one := range settings {
		name := world.plain + "-" + one + "x"
		if err := plane.createNamespace(ctx, name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removePods(name) })
		patchNamespace(ctx, t, name, fmt.Sprintf(`{"metadata":{"labels":{"settings":"%s"}}}`, name))
		world.namespaces[one] = name
		flags := "scheduler.enabled=false,migration.hami.enabled=true,migration.aliyun.enabled=true,migration.tencent.enabled=true," +
			"resourceDomain=" + resourceDomain + ",migration.namespaceSelector.matchLabels.settings=" + name + "," + migrationSettings[one]
		world.install(t, name, chartObjects(t, "--set", flags))
		world.waitPolicies(t, name)
	}
	return world
}

var admissionKinds = map[string]string{
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

// install creates the policies of migration under names of their own.
func (w *MigrationWorld) install(t *testing.T, suffix string, objects []*unstructured.Unstructured) {
	t.Helper()
	ctx, count := context.Background(), 0
	for _, object := range objects {
		plural := admissionKinds[object.GetKind()]
		if plural == "" || !strings.HasPrefix(object.GetName(), "mgpu-migrate-") {
			continue
		}
		object.SetName(object.GetName() + "." + suffix)
		if policy, found, _ := unstructured.NestedString(object.Object, "spec", "policyName"); found {
			_ = unstructured.SetNestedField(object.Object, policy+"."+suffix, "spec", "policyName")
		}
		resource := w.client.Resource(schema.GroupVersionResource{
			Group: "admissionregistration.k8s.io", Version: "v1", Resource: plural})
		if _, err := resource.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{}) })
		count++
	}
	if count != 12 {
		t.Fatalf("the chart has %d policies and bindings of migration, want 4 for each of 3 vocabularies", count)
	}
}

// waitPolicies waits until the API server enforces the policies. Those that rewrite are active when a pod is not
// refused; the others when one is.
func (w *MigrationWorld) waitPolicies(t *testing.T, namespace string) {
	t.Helper()
	for vocabulary, limits := range map[string][2]string{
		"hami":    {"nvidia.com/gpu", "nvidia.com/priority"},
		"aliyun":  {"aliyun.com/gpu-core.percentage", "aliyun.com/gpu-core.percentage"},
		"tencent": {"tencent.com/vcuda-core", "tencent.com/vcuda-memory"},
	} {
		bad := MigrationCase{Limits: map[string]string{limits[0]: "150", limits[1]: "1"}}
		waitFor(t, time.Minute, "the refusals of "+vocabulary, func() (bool, string) {
			_, err := w.create(namespace, bad.pod(), true)
			return err != nil && strings.Contains(err.Error(), "mgpu-migrate-"+vocabulary), fmt.Sprint(err)
		})
	}
	for _, limits := range []map[string]string{{"nvidia.com/gpu": "1"}, {"tencent.com/vcuda-core": "100"},
		{"aliyun.com/gpu-mem": "1", "aliyun.com/gpu-core.percentage": "1"}} {
		waitFor(t, time.Minute, fmt.Sprint("a pod with ", limits), func() (bool, string) {
			_, err := w.create(namespace, MigrationCase{Limits: limits}.pod(), true)
			return err == nil, fmt.Sprint(err)
		})
	}
}

// pod returns the pod of a case without file.
func (c MigrationCase) pod() map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "app", "labels": anyMap(c.Labels), "annotations": anyMap(c.Annotations)},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "busybox",
			"resources": map[string]any{"limits": anyMap(c.Limits)}}}}}
}

func anyMap(texts map[string]string) map[string]any {
	values := map[string]any{}
	for key, text := range texts {
		values[key] = text
	}
	return values
}

// wantPod returns the pod that a case without file becomes.
func (c MigrationCase) wantPod() map[string]any {
	limits := map[string]string{}
	if c.Want.Core > 0 {
		limits[domain+"/mgpu-core"] = fmt.Sprint(c.Want.Core)
	}
	if c.Want.Memory > 0 {
		limits[domain+"/mgpu-memory"] = fmt.Sprint(c.Want.Memory)
	}
	return MigrationCase{Limits: limits, Labels: c.Labels, Annotations: c.Want.Annotations}.pod()
}

// pods returns the pods of a case, and those that they become, none if they are refused.
func (c MigrationCase) pods(t *testing.T) (before, after []map[string]any) {
	t.Helper()
	switch {
	case c.File == "" && c.Want == nil:
		return []map[string]any{c.pod()}, nil
	case c.File == "":
		return []map[string]any{c.pod()}, []map[string]any{c.wantPod()}
	}
	before = podsOf(readObjects(t, migrationFile(t, "files/"+c.File+".yaml")))
	if c.Refused == "" {
		after = podsOf(readObjects(t, migrationFile(t, "files/"+c.File+".want.yaml")))
	}
	return before, after
}

// podsOf returns the pods of objects and of their templates, as their controllers would create them.
func podsOf(objects []*unstructured.Unstructured) []map[string]any {
	var pods []map[string]any
	for _, object := range objects {
		if object.GetKind() == "List" {
			items, _, _ := unstructured.NestedSlice(object.Object, "items")
			for _, item := range items {
				pods = append(pods, podsOf([]*unstructured.Unstructured{{Object: item.(map[string]any)}})...)
			}
			continue
		}
		pod := object.Object
		if object.GetKind() != "Pod" {
			spec, found, _ := unstructured.NestedMap(pod, "spec", "template")
			if !found {
				if spec, found, _ = unstructured.NestedMap(pod, "spec", "jobTemplate", "spec", "template"); !found {
					continue
				}
			}
			pod = spec
		}
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		_ = unstructured.SetNestedField(pod, "app", "metadata", "name")
		pods = append(pods, pod)
	}
	return pods
}

func (w *MigrationWorld) create(namespace string, pod map[string]any, dryRun bool) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(pod)}
	object.SetNamespace(namespace)
	options := metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	return w.client.Resource(pods).Namespace(namespace).Create(context.Background(), object, options)
}

// essence is what the policies may change, and what must stay beside it.
func essence(pod *unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	if annotations := pod.GetAnnotations(); len(annotations) > 0 {
		found["annotations"] = annotations
	}
	found["labels"] = pod.GetLabels()
	spec := runtime.DeepCopyJSON(pod.Object["spec"].(map[string]any))
	for _, ofServiceAccounts := range []string{"volumes"} {
		delete(spec, ofServiceAccounts)
	}
	for _, side := range []string{"containers", "initContainers"} {
		containers, _ := spec[side].([]any)
		for _, container := range containers {
			delete(container.(map[string]any), "volumeMounts")
		}
	}
	found["spec"] = spec
	return found
}

func TestChartMigrationRewritesOrRefusesEachCase(t *testing.T) {
	world := newMigrationWorld(t, domain, slices.Collect(maps.Keys(migrationSettings))...)
	for _, one := range migrationCases(t) {
		t.Run(one.Name, func(t *testing.T) {
			before, after := one.pods(t)
			for i, pod := range before {
				got, err := world.create(world.namespaces[one.Settings], pod, true)
				if one.Refused != "" {
					if err == nil {
						t.Fatalf("is rewritten as %v, want refused", essence(got))
					}
					if !one.Invalid && !strings.Contains(err.Error(), "denied request: "+one.Refused) {
						t.Errorf("the API server says %v, want %s", err, one.Refused)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				world.check(t, one, got, after[i])
			}
		})
	}
}

// check compares a rewritten pod with the wanted one, which the policies leave as it is.
func (w *MigrationWorld) check(t *testing.T, one MigrationCase, got *unstructured.Unstructured, wanted map[string]any) {
	t.Helper()
	for _, namespace := range []string{w.plain, w.namespaces[one.Settings]} {
		want, err := w.create(namespace, wanted, true)
		if err != nil {
			t.Fatalf("the wanted pod: %v", err)
		}
		if !reflect.DeepEqual(essence(got), essence(want)) {
			t.Errorf("is rewritten as %v,\nwant %v", essence(got), essence(want))
		}
	}
}

func TestChartMigrationLeavesOtherNamespacesAlone(t *testing.T) {
	world := newMigrationWorld(t, domain, "")
	pod := MigrationCase{Limits: map[string]string{"nvidia.com/gpu": "1"}}.pod()
	got, err := world.create(world.plain, pod, true)
	if err != nil {
		t.Fatal(err)
	}
	limits, _, _ := unstructured.NestedStringMap(got.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any),
		"resources", "limits")
	if !maps.Equal(limits, map[string]string{"nvidia.com/gpu": "1"}) {
		t.Errorf("the limits are %v, want those of the manifest", limits)
	}
}

func TestChartMigrationAppliesToPodsOfADeployment(t *testing.T) {
	if plane.full == nil {
		t.Skip("the stage install has controllers")
	}
	ctx := context.Background()
	world := newMigrationWorld(t, domain, "chosen")
	namespace := world.namespaces["chosen"]
	var deployment appsv1.Deployment
	decoder := bytes.NewBufferString(migrationFile(t, "files/hami-example.yaml"))
	if err := yaml.Unmarshal(decoder.Bytes(), &deployment); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.admin.AppsV1().Deployments(namespace).Create(ctx, &deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Minute, "a pod of the Deployment", func() (bool, string) {
		pods, err := plane.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return false, fmt.Sprint(err)
		}
		limits := pods.Items[0].Spec.Containers[0].Resources.Limits
		core, memory := limits[domain+"/mgpu-core"], limits[domain+"/mgpu-memory"]
		if core.Value() != 10 || memory.Value() != 3000 || len(limits) != 2 {
			t.Errorf("the pod has the limits %v, want mgpu-core 10 and mgpu-memory 3000", limits)
		}
		return true, ""
	})
	_ = plane.admin.AppsV1().Deployments(namespace).Delete(ctx, deployment.Name, metav1.DeleteOptions{})
}

func TestChartMigrationUsesTheDomainOfTheChart(t *testing.T) {
	world := newMigrationWorld(t, "gpus.example.com", "")
	pod := MigrationCase{Limits: map[string]string{"nvidia.com/gpu": "2"}}.pod()
	got, err := world.create(world.namespaces[""], pod, true)
	if err != nil {
		t.Fatal(err)
	}
	container := got.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	limits, _, _ := unstructured.NestedStringMap(container, "resources", "limits")
	if !maps.Equal(limits, map[string]string{"gpus.example.com/mgpu-core": "200"}) {
		t.Errorf("the limits are %v, want gpus.example.com/mgpu-core 200", limits)
	}
}

// A pod with many containers takes no more of the API server's time than the policies may take.
func TestChartMigrationRewritesAPodWithManyContainers(t *testing.T) {
	world := newMigrationWorld(t, domain, "")
	pod := MigrationCase{}.pod()
	var containers []any
	var counts []string
	for i := range 40 {
		counts = append(counts, fmt.Sprintf("c%d=2", i))
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": "busybox", "resources": map[string]any{
			"limits": map[string]any{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "1"}}})
	}
	pod["spec"].(map[string]any)["containers"] = containers
	got, err := world.create(world.namespaces[""], pod, true)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(counts, ",")
	if split := got.GetAnnotations()[multipleGPUKey]; split != want {
		t.Errorf("the annotation is %s, want %s", split, want)
	}
}

func TestChartMigrationIsOffByDefaultAndNeedsKubernetes136(t *testing.T) {
	for _, object := range chartObjects(t) {
		if strings.HasPrefix(object.GetName(), "mgpu-migrate-") {
			t.Errorf("%s is installed by default", nameOf(object))
		}
	}
	for flag, want := range map[string]string{
		"migration.hami.enabled=true": "migration.hami.enabled: is true, but MutatingAdmissionPolicies need Kubernetes 1.36 " +
			"and the cluster has v1.35.4",
		"migration.tencent.enabled=true":  "migration.tencent.enabled: is true, but MutatingAdmissionPolicies need Kubernetes 1.36",
		"migration.aliyun.memoryUnit=GB":  "at '/migration/aliyun/memoryUnit': value must be one of 'GiB', 'MiB'",
		"migration.hami.core=101":         "at '/migration/hami/core'",
		"migration.hami.cardMemoryMiB=-1": "at '/migration/hami/cardMemoryMiB'",
	} {
		if _, err := renderChart(t, "--kube-version", "1.35.4", "--set", flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s helm says %v, want %q", flag, err, want)
		}
	}
}
