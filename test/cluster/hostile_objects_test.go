package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kube-apiserver stores "<" as one byte and writes it as six bytes. This value makes a watch line of
// 8.7 MB, and three such pods are over the limit of a page.
const longValue = 1_450_000

// createRaw creates a pod from JSON text. Go's encoder would escape characters of it.
func createRaw(ctx context.Context, t testing.TB, namespace, pod string) error {
	t.Helper()
	return plane.admin.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces", namespace, "pods").
		SetHeader("Content-Type", "application/json").Body([]byte(pod)).Do(ctx).Error()
}

func longPod(name, node string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"nodeName":%q,`+
		`"automountServiceAccountToken":false,"containers":[{"name":"a","image":"none",`+
		`"env":[{"name":"LONG","value":"%s"}]}]}}`, name, node, strings.Repeat("<", longValue))
}

// deepPod returns a pod whose managedFields have this number of levels.
func deepPod(name, node string, levels int) string {
	fields := strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"managedFields":[`+
		`{"manager":"tenant","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",`+
		`"fieldsType":"FieldsV1","fieldsV1":%s}]},"spec":{"nodeName":%q,`+
		`"automountServiceAccountToken":false,"containers":[{"name":"a","image":"none"}]}}`,
		name, fields, node)
}

// followsPods checks that the extender receives the binding and the end of a pod.
func (w *World) followsPods(t *testing.T, name string) {
	t.Helper()
	create(w.ctx, t, w.pod(name).wholeCards(cardsOfEachNode))
	waitBound(w.ctx, t, w.namespace, name)
	deleteNow(w.ctx, t, w.namespace, name)
}

func TestPodsOfATenantDoNotHideThoseOfOthers(t *testing.T) {
	world := newWorld(t, 1)
	node := world.nodes[0]
	world.followsPods(t, "before")
	for i := range 40 {
		if err := createRaw(world.ctx, t, world.namespace, longPod(fmt.Sprint("long-", i), node)); err != nil {
			t.Fatal(err)
		}
	}
	if err := createRaw(world.ctx, t, world.namespace, deepPod("deep", node, 120)); err != nil {
		t.Fatal("kube-apiserver refuses managedFields of 120 levels: ", err)
	}
	world.followsPods(t, "while-it-watches")
	// Each change of a label is another long line of the watch.
	label := []byte(`{"metadata":{"labels":{"again":"yes"}}}`)
	for _, name := range []string{"long-0", "long-39"} {
		if _, err := plane.admin.CoreV1().Pods(world.namespace).Patch(world.ctx, name,
			"application/merge-patch+json", label, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	world.followsPods(t, "after-a-change")
	world.extender.killAndRestart(t)
	world.extender.waitReady(t)
	world.followsPods(t, "after-a-restart")
	world.expectNoneUnreadable(t)
	t.Log("mgpu-extender: ", world.extender.process.memory())
	world.history.check(world.ctx, t)
}

// expectNoneUnreadable checks that the extender has read all objects.
func (w *World) expectNoneUnreadable(t *testing.T) {
	t.Helper()
	if _, body, err := w.extender.get("/readyz"); err != nil || strings.Contains(body, "unreadable") {
		t.Errorf("/readyz returned %s, %v", body, err)
	}
}

// A long pod is scheduled like any other pod.
func TestALongPodIsBoundAndTerminates(t *testing.T) {
	world := newWorld(t, 1)
	pod := world.pod("long").share(30, 8000).build()
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("x", longValue/2)}}
	if _, err := plane.admin.CoreV1().Pods(world.namespace).Create(world.ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitBound(world.ctx, t, world.namespace, "long")
	deleteNow(world.ctx, t, world.namespace, "long")
	world.followsPods(t, "after") // with all cards
}

// etcd's limit of a request (--max-request-bytes), which has the object and some more.
const requestBytesMax = 1_572_864

// largePods have one part that is large, or is not UTF-8.
var largePods = map[string]func() string{
	"annotations": func() string {
		return fmt.Sprintf(`"annotations":{%s}`, repeated(255, func(i int) string {
			return fmt.Sprintf(`"a%d":%q`, i, strings.Repeat("x", 1_000))
		}))
	},
	"labels": func() string {
		return fmt.Sprintf(`"labels":{%s}`, repeated(50_000, func(i int) string { return fmt.Sprintf(`"l%06d":"x"`, i) }))
	},
	"finalizers": func() string {
		return fmt.Sprintf(`"finalizers":[%s]`, repeated(20_000, func(i int) string { return fmt.Sprintf(`"example.com/f%06d"`, i) }))
	},
	// The API server stores them, and returns them, as they are.
	"bytes": func() string {
		return `"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",` +
			`"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a` + "\xff\xfe" + `":{}}}}}]`
	},
	"owners": func() string {
		return fmt.Sprintf(`"ownerReferences":[%s]`, repeated(20_000, func(i int) string {
			return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"%08d"}`, i)
		}))
	},
}

func repeated(count int, text func(int) string) string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = text(i)
	}
	return strings.Join(texts, ",")
}

// createLargePod creates a pending pod that requests cards. `metadata` is JSON text, which may be empty.
func createLargePod(ctx context.Context, t testing.TB, namespace, name, metadata, value string) error {
	t.Helper()
	if metadata != "" {
		metadata = "," + metadata
	}
	return createRaw(ctx, t, namespace, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},`+
		`"spec":{"schedulerName":"nobody","automountServiceAccountToken":false,"containers":[{"name":"a","image":%q,`+
		`"resources":{"limits":{%q:"10",%q:"1024"}},"env":[{"name":"LONG","value":%q}]}]}}`,
		name, metadata, strings.Repeat("long", 5_000), coreResource, memoryResource, value))
}

// createFullPod creates a pod to which the API server can add almost nothing.
func createFullPod(ctx context.Context, t testing.TB, namespace, name string) {
	t.Helper()
	var err error
	for size := requestBytesMax - 20_000; size > requestBytesMax-40_000; size -= 32 {
		if err = createLargePod(ctx, t, namespace, name, "", strings.Repeat("x", size)); err == nil {
			return
		}
	}
	t.Fatal("no pod was created: ", err)
}

// deleteLargePod shortens the pod first: the API server adds a time to a pod that it deletes.
func deleteLargePod(ctx context.Context, t testing.TB, namespace, name string) {
	t.Helper()
	_, err := plane.admin.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"finalizers":null},"spec":{"containers":[{"name":"a","image":"short"}]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// While the watch cache of the API server has the long pod, the API server tries to write that one.
	now := int64(0)
	waitFor(t, time.Minute, name+" to be deleted", func() (bool, string) {
		err := plane.admin.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		return err == nil, fmt.Sprint(err)
	})
}

// A start changes every pending pod that requests cards. The pods of a tenant that have no room for this
// change, or are long to compare, do not prevent it.
func TestAPendingPodThatCannotBeChangedDoesNotPreventAStart(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	createFullPod(ctx, t, namespace, "full")
	for name, metadata := range largePods {
		if err := createLargePod(ctx, t, namespace, name, metadata(), ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	extender := plane.startExtender(t)
	// A change whose answer is later than the extender waits for is no touch of result "unbound".
	waitFor(t, time.Minute, "the pods to be changed, but the full one", func() (bool, string) {
		full := extender.metrics(t).with("mgpu_extender_pod_touches_total", `result="full"`)
		for name := range largePods {
			if pod, err := plane.admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil || !isTouched(pod) {
				return false, fmt.Sprint(name, " is not changed: ", err)
			}
		}
		return full >= 1, fmt.Sprint("full: ", full)
	})
	deleteLargePod(ctx, t, namespace, "full")
	for name := range largePods {
		deleteLargePod(ctx, t, namespace, name)
	}
}
