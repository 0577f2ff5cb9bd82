package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// renderChart returns what `helm template` prints with a registry of images. The flags are those of helm.
func renderChart(t testing.TB, flags ...string) (string, error) {
	t.Helper()
	return renderChartAt(t, deployPath("chart"), flags...)
}

func renderChartAt(t testing.TB, chart string, flags ...string) (string, error) {
	t.Helper()
	binary := os.Getenv("MGPU_HELM_BINARY")
	if binary == "" {
		t.Skip("MGPU_HELM_BINARY is not set; test/run.sh install sets it")
	}
	command := exec.Command(binary, append([]string{"template", releaseName, chart,
		"--namespace", releaseNamespace, "--set", "image.registry=registry.test/mgpu"}, flags...)...)
	command.Env = []string{"HOME=" + t.TempDir()}
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return "", errors.New(said.String())
	}
	return string(output), nil
}

// chartObjects returns the objects that the chart has with these flags of helm.
func chartObjects(t testing.TB, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := renderChart(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return readObjects(t, text)
}

func readObjects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
}

// nameOf names an object in messages.
func nameOf(object *unstructured.Unstructured) string {
	name := object.GetKind() + " " + object.GetName()
	if object.GetNamespace() != "" {
		name += " in " + object.GetNamespace()
	}
	return name
}

// byName returns the objects whose kind is one of these, by their name.
func byName(objects []*unstructured.Unstructured, kinds ...string) map[string]*unstructured.Unstructured {
	named := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		for _, kind := range kinds {
			if object.GetKind() == kind {
				named[nameOf(object)] = object
			}
		}
	}
	return named
}

// tryObject creates an object with dry run and strict validation of its fields.
func tryObject(t testing.TB, object *unstructured.Unstructured) error {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(plane.admin.Discovery()))
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if object.GetNamespace() != "" {
		resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = resource.Create(context.Background(), object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return fmt.Errorf("%s: %w", nameOf(object), err)
	}
	return nil
}

// requiredTerms returns the terms of a DaemonSet's node affinity.
func requiredTerms(t testing.TB, object *unstructured.Unstructured) []corev1.NodeSelectorTerm {
	t.Helper()
	var set appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set); err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// matchesAny returns whether labels match one of the terms, which have the operators In and NotIn only.
func matchesAny(terms []corev1.NodeSelectorTerm, labels map[string]string) bool {
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(one corev1.NodeSelectorRequirement) bool {
			value, has := labels[one.Key]
			in := has && slices.Contains(one.Values, value)
			return in != (one.Operator == corev1.NodeSelectorOpIn)
		})
	})
}
