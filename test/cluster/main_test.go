package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// folderPrefix begins the name of the folder of a test run.
const folderPrefix = "mgpu-cluster-"

// plane is the control plane of all tests. Each test has its own namespace and nodes.
var plane *ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	components := os.Getenv("MGPU_COMPONENTS_BINARY")
	if components == "" {
		fmt.Fprintln(os.Stderr, "MGPU_COMPONENTS_BINARY is not set; test/run.sh cluster builds the program and sets it")
		return 2
	}
	folder, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer os.RemoveAll(folder)
	defer endOnSignal(folder)()
	full, err := fullCluster()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	plane, err = startControlPlane(components, folder, full)
	defer plane.stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stopNode()
	// The chart has its own rights.
	if full == nil {
		if err := plane.applyRights(appliesRights, permitsEvictions); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// endOnSignal stops all processes when a signal arrives, until the returned function is called.
func endOnSignal(folder string) func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	// ctest, which reads what this prints, ends at the same signal. A write fails then, and ends nothing.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		if _, received := <-signals; received {
			stopNode()
			_ = os.RemoveAll(folder)
			os.Exit(1)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// newNamespace creates a namespace for the test, and removes its pods at the end of the test.
func newNamespace(ctx context.Context, t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "=", "-").Replace(t.Name()))
	name = name[:min(len(name), 60)]
	if err := plane.createNamespace(ctx, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePods(name) })
	return name
}

func removePods(namespace string) {
	now := int64(0)
	_ = plane.admin.CoreV1().Pods(namespace).DeleteCollection(context.Background(),
		metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
}

func create(ctx context.Context, t testing.TB, builder *PodBuilder) *corev1.Pod {
	t.Helper()
	pod := builder.build()
	made, err := plane.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func get(ctx context.Context, t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	pod, err := plane.admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// deleteNow deletes pods without a grace period.
func deleteNow(ctx context.Context, t testing.TB, namespace string, names ...string) {
	t.Helper()
	now := int64(0)
	for _, name := range names {
		err := plane.admin.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func waitBound(ctx context.Context, t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	waitFor(t, 3*time.Minute, "pod "+name+" to be bound", func() (bool, string) {
		pod = get(ctx, t, namespace, name)
		return pod.Spec.NodeName != "", scheduledCondition(pod)
	})
	return pod
}

const notTried = "no PodScheduled condition"

// scheduledCondition returns the message of the condition PodScheduled.
func scheduledCondition(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Reason + ": " + condition.Message
		}
	}
	return notTried
}

// waitPending waits until the condition PodScheduled of the pod contains the sentence.
func waitPending(ctx context.Context, t testing.TB, namespace, name, sentence string) {
	t.Helper()
	waitFor(t, 3*time.Minute, "pod "+name+" to be pending with "+sentence, func() (bool, string) {
		pod := get(ctx, t, namespace, name)
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s was bound to %s with %v", name, pod.Spec.NodeName, pod.Annotations)
		}
		said := scheduledCondition(pod)
		return strings.Contains(said, sentence), said
	})
}

func repositoryPath(elements ...string) string {
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	if err != nil {
		panic(err)
	}
	return path
}
