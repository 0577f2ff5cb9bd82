package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func deployExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deployPath("examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Pods count when they are created, whether they have cards or wait for them, and no more when they have ended.
func TestChartExampleQuotaLimitsTheSharesOfANamespace(t *testing.T) {
	if plane.full == nil {
		t.Skip("the stage install has the controller of quotas")
	}
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	var quota corev1.ResourceQuota
	if err := yaml.UnmarshalStrict([]byte(deployExample(t, "quota.yaml")), &quota); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.admin.CoreV1().ResourceQuotas(namespace).Create(ctx, &quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := plane.admin.CoreV1().Pods(namespace)
	// Until the API server's own cache of quotas has this one with its status, pods are accepted and do not count, or
	// are all refused.
	waitFor(t, time.Minute, "the API server to apply the quota", func() (bool, string) {
		pod := newPod(namespace, "larger-than-the-quota").share(91, 1024).scheduler("nobody").build()
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "exceeded quota: mgpu"), fmt.Sprint(err)
	})
	try := func(pod *PodBuilder) error {
		_, err := pods.Create(ctx, pod.scheduler("nobody").build(), metav1.CreateOptions{})
		return err
	}
	for i, core := range []int{50, 10, 30} {
		if err := try(newPod(namespace, fmt.Sprint("fits-", i)).share(core, 1024)); err != nil {
			t.Fatalf("a pod with %d of 90 percent: %v", core, err)
		}
	}
	for what, pod := range map[string]*PodBuilder{
		"core":       newPod(namespace, "one-too-many").share(1, 1024),
		"whole card": newPod(namespace, "one-too-many").wholeCards(1),
		"sidecar":    newPod(namespace, "one-too-many").container("app", "", "").sidecar(1, 1024),
	} {
		if err := try(pod); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: mgpu, requested: requests."+coreResource) {
			t.Errorf("a pod over the quota, %s: %v, want it refused", what, err)
		}
	}
	if err := try(newPod(namespace, "no-cards").container("app", "", "")); err != nil {
		t.Errorf("a pod without cards: %v", err)
	}
	deleteNow(ctx, t, namespace, "fits-0")
	waitFor(t, time.Minute, "the deleted pod to count no more", func() (bool, string) {
		err := try(newPod(namespace, "fits-now").share(50, 1024))
		return err == nil, fmt.Sprint(err)
	})
	if err := try(newPod(namespace, "too-much-memory").container("app", "", "").initShare(1, 24*1024)); !apierrors.IsForbidden(err) {
		t.Errorf("a pod with more memory than is left: %v, want it refused", err)
	}
}

// KueueAPI is an API server with the definitions of Kueue's resources.
type KueueAPI struct {
	client    dynamic.Interface
	namespace string
}

// newKueueAPI creates the definitions with these plurals, each after a change.
func newKueueAPI(t *testing.T, namespace string, change func(definition *unstructured.Unstructured), plurals ...string) *KueueAPI {
	t.Helper()
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	api := &KueueAPI{namespace: namespace}
	if api.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	definitions := api.client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, plural := range plurals {
		definition := kueueObjects(t, "crd", "bases", "kueue.x-k8s.io_"+plural+".yaml")[0]
		change(definition)
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		name := definition.GetName()
		t.Cleanup(func() { _ = definitions.Delete(ctx, name, metav1.DeleteOptions{}) })
		waitFor(t, time.Minute, name+" to be served", func() (bool, string) {
			_, err := api.resource(plural, "").List(ctx, metav1.ListOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	return api
}

// kueueObjects reads a file of Kueue's module.
func kueueObjects(t *testing.T, elements ...string) []*unstructured.Unstructured {
	t.Helper()
	folder := os.Getenv("MGPU_KUEUE_FOLDER")
	if folder == "" {
		t.Skip("MGPU_KUEUE_FOLDER is not set; test/run.sh install sets it")
	}
	text, err := os.ReadFile(filepath.Join(append([]string{folder, "config", "components"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return readObjects(t, string(text))
}

func (k *KueueAPI) resource(plural, namespace string) dynamic.ResourceInterface {
	resource := k.client.Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: plural})
	if namespace == "" {
		return resource
	}
	return resource.Namespace(namespace)
}

// create creates an object of Kueue with strict validation of its fields.
func (k *KueueAPI) create(object *unstructured.Unstructured) error {
	plural, namespace := strings.ToLower(object.GetKind())+"s", ""
	if object.GetKind() == "LocalQueue" {
		namespace = k.namespace
	}
	object.SetNamespace(namespace)
	_, err := k.resource(plural, namespace).Create(context.Background(), object,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

func TestChartExampleQueuesAreAcceptedByTheDefinitionsOfKueue(t *testing.T) {
	kueue := newKueueAPI(t, newNamespace(context.Background(), t), func(*unstructured.Unstructured) {},
		"clusterqueues", "localqueues", "resourceflavors")
	objects := readObjects(t, deployExample(t, "kueue.yaml"))
	if len(objects) != 3 {
		t.Fatalf("the example has %d objects, want 3", len(objects))
	}
	for _, object := range objects {
		if err := kueue.create(object); err != nil {
			t.Errorf("%s: %v", nameOf(object), err)
		}
	}
	// The definitions do find mistakes.
	for what, change := range map[string]func(spec map[string]any){
		"a resource that is not covered": func(group map[string]any) {
			group["coveredResources"] = []any{"cpu", "memory", coreResource}
		},
		"a covered resource without quota": func(group map[string]any) {
			group["coveredResources"] = append(group["coveredResources"].([]any), "example.com/more")
		},
	} {
		wrong := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(readObjects(t, deployExample(t, "kueue.yaml"))[1].Object)}
		wrong.SetName("wrong")
		groups, _, _ := unstructured.NestedSlice(wrong.Object, "spec", "resourceGroups")
		change(groups[0].(map[string]any))
		_ = unstructured.SetNestedSlice(wrong.Object, groups, "spec", "resourceGroups")
		if err := kueue.create(wrong); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
}
