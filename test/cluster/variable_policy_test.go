package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	variablePolicy = "mgpu-no-cards-by-variable"
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
)

// installPolicies installs policies of the chart in the whole cluster until the end of the test.
func installPolicies(t *testing.T, flags []string, names ...string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := slices.DeleteFunc(chartObjects(t, append(flags, "--kube-version", "1.36.0")...),
		func(one *unstructured.Unstructured) bool { return !slices.Contains(names, one.GetName()) })
	if len(objects) != 2*len(names) {
		t.Fatalf("the chart has %d objects %v, want policies and their bindings", len(objects), names)
	}
	for _, object := range objects {
		resource := client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io",
			Version: "v1", Resource: admissionKinds[object.GetKind()]})
		_, err := resource.Create(context.Background(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resource.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}) })
	}
}

// The variable decides where NVIDIA's runtime is the default, and the answer of the device plugin can be lost.
func TestChartLeavesNoContainerItsCardsByAVariable(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	installPolicies(t, nil, variablePolicy)
	created := func(pod *PodBuilder) *corev1.Pod {
		t.Helper()
		made, err := plane.admin.CoreV1().Pods(namespace).Create(ctx, pod.build(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	share := func() *PodBuilder { return newPod(namespace, "app").share(30, 1024) }
	waitFor(t, time.Minute, "the policy", func() (bool, string) {
		env := created(share()).Spec.Containers[0].Env
		return len(env) == 1, fmt.Sprint(env)
	})
	set := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: visibleDevices, Value: value} }
	other := corev1.EnvVar{Name: "A", Value: "b"}
	name := corev1.EnvVar{Name: visibleDevices, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}
	for _, one := range []struct{ before, after []corev1.EnvVar }{
		{nil, []corev1.EnvVar{set("void")}},
		{[]corev1.EnvVar{other}, []corev1.EnvVar{other, set("void")}},
		{[]corev1.EnvVar{set("all"), other}, []corev1.EnvVar{set("void"), other}},
		{[]corev1.EnvVar{set("void")}, []corev1.EnvVar{set("void")}},
		{[]corev1.EnvVar{name, set("0"), other}, []corev1.EnvVar{set("void"), set("void"), other}},
	} {
		pod := share().initShare(30, 1024).container("other", "", "")
		pod.pod.Spec.Containers[0].Env = one.before
		pod.pod.Spec.InitContainers[0].Env = one.before
		pod.pod.Spec.Containers[1].Env = one.before
		spec := created(pod).Spec
		for what, got := range map[string][]corev1.EnvVar{"the container": spec.Containers[0].Env,
			"the init container": spec.InitContainers[0].Env} {
			if !slices.EqualFunc(got, one.after, sameVariable) {
				t.Errorf("%s with %v has %v, want %v", what, one.before, got, one.after)
			}
		}
		if got := spec.Containers[1].Env; !slices.EqualFunc(got, one.before, sameVariable) {
			t.Errorf("the container without cards has %v, want %v", got, one.before)
		}
	}
	without := newPod(namespace, "app").container("app", "", "")
	without.pod.Spec.Containers[0].Env = []corev1.EnvVar{set("all")}
	if got := created(without).Spec.Containers[0].Env; !slices.EqualFunc(got, []corev1.EnvVar{set("all")}, sameVariable) {
		t.Errorf("a pod without cards has %v", got)
	}
}

func sameVariable(a, b corev1.EnvVar) bool {
	return a.Name == b.Name && a.Value == b.Value && (a.ValueFrom == nil) == (b.ValueFrom == nil)
}

func TestChartHasNoPolicyThatOlderVersionsDoNotKnow(t *testing.T) {
	for _, object := range chartObjects(t, "--kube-version", "1.35.4") {
		if strings.HasPrefix(object.GetKind(), "Mutating") || strings.HasPrefix(object.GetName(), "mgpu-request") {
			t.Errorf("the chart for 1.35 has the %s %s", object.GetKind(), object.GetName())
		}
	}
}
