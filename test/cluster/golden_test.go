package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var record = flag.Bool("record", false, "write new files to test/golden/kube-scheduler-1.36.3")

const goldenFolder = "../golden/kube-scheduler-1.36.3"

// Records the requests that unit tests use. It runs only with -record.
func TestRecordGolden(t *testing.T) {
	if !*record {
		t.Skip("runs with -record only")
	}
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	plane.createNodes(ctx, t, "gpu-", 3)
	recorder := newRecorder(plane.admin)
	t.Cleanup(recorder.server.Close)

	plane.startScheduler(t, SchedulerSetup{
		configuration: "kube-scheduler.yaml", extenderURL: recorder.url()})
	create(ctx, t, newPod(namespace, "two-containers").
		container("train", "60", "12000").container("serve", "30", "8000"))
	waitForRequest(t, recorder, "bind")
	save(t, recorder, "filter", "filter")
	save(t, recorder, "prioritize", "prioritize")
	save(t, recorder, "bind", "bind")

	for _, class := range []struct {
		name  string
		value int32
	}{{"golden-low", 10}, {"golden-high", 1000}} {
		createPriorityClass(ctx, t, class.name, class.value)
	}
	for _, name := range []string{"low-0", "low-1", "low-2"} {
		create(ctx, t, newPod(namespace, name).priorityClass("golden-low").wholeCards(7))
		waitBound(ctx, t, namespace, name)
	}
	create(ctx, t, newPod(namespace, "preemptor").priorityClass("golden-high").wholeCards(4))
	waitForRequest(t, recorder, "preempt")
	save(t, recorder, "preempt", "preempt")
}

func waitForRequest(t *testing.T, recorder *Recorder, verb string) {
	t.Helper()
	waitFor(t, 2*time.Minute, "a request to "+verb, func() (bool, string) {
		_, seen := recorder.request(verb)
		return seen, "none"
	})
}

// save writes the body of a request, and its request line and headers into another file.
func save(t *testing.T, recorder *Recorder, verb, name string) {
	t.Helper()
	request, seen := recorder.request(verb)
	if !seen {
		t.Fatalf("no request to %s", verb)
	}
	head, err := os.Create(filepath.Join(goldenFolder, name+".headers"))
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	_, _ = head.WriteString(request.Line + "\r\n")
	if err := request.Header.Write(head); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(goldenFolder, name+".json"), request.Body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func createPriorityClass(ctx context.Context, t *testing.T, name string, value int32) {
	t.Helper()
	createPriorityClassOf(ctx, t, name, value, corev1.PreemptLowerPriority)
}

func createPriorityClassOf(ctx context.Context, t *testing.T, name string, value int32, policy corev1.PreemptionPolicy) {
	t.Helper()
	classes := plane.admin.SchedulingV1().PriorityClasses()
	_, err := classes.Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	// The API server admits pods by a cache, in which the class appears later.
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod := newPod("default", "probe").priorityClass(name).share(10, 1024).build()
	waitFor(t, time.Minute, "pods of the class "+name+" to be admitted", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, dryRun)
		return err == nil, fmt.Sprint(err)
	})
}
