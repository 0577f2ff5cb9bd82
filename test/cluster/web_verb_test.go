package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningExtenderPod creates a pod that looks like one of the chart's extender.
func runningExtenderPod(ctx context.Context, t testing.TB, name string) {
	t.Helper()
	builder := newPod("kube-system", name).container("extender", "", "")
	builder.pod.Labels = map[string]string{"app.kubernetes.io/name": "mgpu", "app.kubernetes.io/component": "extender"}
	builder.pod.Spec.NodeName = "none"
	pod := create(ctx, t, builder)
	t.Cleanup(func() { deleteNow(ctx, t, "kube-system", name) })
	pod.Status.Phase = corev1.PodRunning
	if _, err := plane.admin.CoreV1().Pods("kube-system").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fakeKubectl writes a kubectl whose port-forward listens on the port of another process. The stage install
// tests a real one.
func fakeKubectl(t testing.TB, port int) string {
	t.Helper()
	folder := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >%s/arguments\necho 'Forwarding from 127.0.0.1:%d -> 9802'\nexec sleep 600\n",
		folder, port)
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestWebVerbServesThePage(t *testing.T) {
	ctx := context.Background()
	extender := plane.startExtender(t)
	runningExtenderPod(ctx, t, "extender-a")
	folder := fakeKubectl(t, extender.metricsPort)
	command := exec.Command(kubectlMgpuBinary(t), "web", "--kubeconfig", plane.kubeconfig(adminToken))
	command.Env = append(os.Environ(), "PATH="+folder+":/usr/bin:/bin")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems bytes.Buffer
	command.Stderr = &problems
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if want := fmt.Sprintf("http://127.0.0.1:%d/web/\n", extender.metricsPort); line != want {
		t.Fatalf("it printed %q, want %q: %v, %s", line, want, err, problems.String())
	}
	arguments, err := os.ReadFile(filepath.Join(folder, "arguments"))
	if err != nil || !strings.Contains(string(arguments), "pod/extender-a :9802") {
		t.Errorf("kubectl was called with %q, %v", arguments, err)
	}
	extender.openPage(t, "/web/").waitLive()

	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGINT: %v, %s", err, problems.String())
		}
	case <-time.After(browserWait):
		t.Error("it does not end after SIGINT")
	}
}

func TestWebVerbSaysWhenNoExtenderRuns(t *testing.T) {
	command := exec.Command(kubectlMgpuBinary(t), "web", "--kubeconfig", plane.kubeconfig(adminToken))
	output, _ := command.CombinedOutput()
	want := "no pod of mgpu-extender runs in namespace kube-system; kubectl mgpu doctor finds the cause"
	if !strings.Contains(string(output), want) || command.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d: %s", command.ProcessState.ExitCode(), output)
	}
}
