package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// extenderByPortForward starts an extender, which is a process of this machine. A pod of this name in the network
// of the node stands for it, so that a connection to that pod reaches it: through kubectl, the API server, kubelet
// and containerd. The rights come with the chart, which is not installed.
func extenderByPortForward(ctx context.Context, t *testing.T, name string) *Extender {
	t.Helper()
	if plane.full == nil {
		t.Skip("this needs a full cluster, which test/run.sh install has")
	}
	node := realNode(t)
	node.label(t, "true")
	t.Cleanup(func() { node.label(t, "false") })
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.follow(plane.kubeconfig(adminToken))
	extender.start(t)
	extender.waitReady(t)
	builder := newPod("kube-system", name).container("extender", "", "").runs()
	builder.pod.Labels = map[string]string{"app.kubernetes.io/name": "mgpu", "app.kubernetes.io/component": "extender"}
	builder.pod.Spec.NodeName, builder.pod.Spec.HostNetwork = nodeName, true
	pod := create(ctx, t, builder)
	t.Cleanup(func() { deleteNow(ctx, t, pod.Namespace, pod.Name) })
	waitRunning(ctx, t, pod.Namespace, pod.Name)
	return extender
}

func TestInstallDoctorReachesTheExtenderByPortForward(t *testing.T) {
	ctx := context.Background()
	extender := extenderByPortForward(ctx, t, "doctor-port-forward")
	report := runDoctor(t, adminToken, "--metrics-port", fmt.Sprint(extender.metricsPort))
	report.expect(t, "extender", "ok", "is ready, in 1 pod")
	report.expect(t, "versions", "ok", "all programs have version")
	report.expect(t, "certificates", "ok", "reports no certificates")
	// kubelet answers, too.
	report.expect(t, "kubelets", "note", "kubelet 1.36 and 1.37 update the status of pods")

	// A user who may read the pods, and not forward ports to them.
	grantPods(ctx, t, "kube-system", "nobody", "pods")
	t.Cleanup(func() {
		_ = plane.admin.RbacV1().RoleBindings("kube-system").Delete(ctx, "tenant", metav1.DeleteOptions{})
		_ = plane.admin.RbacV1().Roles("kube-system").Delete(ctx, "tenant", metav1.DeleteOptions{})
	})
	// The authorizer of the API server learns of the role from a watch.
	waitFor(t, time.Minute, "the user to read the pods", func() (bool, string) {
		_, err := clientOf(t, nobodyToken).CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	report = runDoctor(t, nobodyToken, "--metrics-port", fmt.Sprint(extender.metricsPort))
	report.expect(t, "extender", "unknown", "pods/portforward")
	if report.code != 1 {
		t.Errorf("exit code %d, want 1", report.code)
	}
}

// The objects of deploy/manifests have the names of the chart's, and take the rights of its service accounts.
func TestInstallDoctorAdvisesWhatRepairsTheRelease(t *testing.T) {
	release := installed(t)
	_ = plane.admin.CoordinationV1().Leases("kube-system").Delete(release.ctx, "mgpu-extender", metav1.DeleteOptions{})
	release.waitGood(t)
	other := runDoctor(t, adminToken, "--namespace", "kube-system")
	other.expect(t, "installation", "error", "is not installed in namespace kube-system")
	for _, finding := range other.Findings {
		if strings.Contains(finding.Remedy, "apply") {
			t.Errorf("it advises %q", finding.Remedy)
		}
	}
	err := plane.admin.RbacV1().ClusterRoleBindings().Delete(release.ctx, "mgpu-extender", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var remedy string
	waitFor(t, time.Minute, "the finding about rights", func() (bool, string) {
		report := runDoctor(t, adminToken)
		if found := report.find("rights", "error"); found != nil {
			remedy = found.Remedy
		}
		return remedy != "", fmt.Sprintf("%+v", report.Findings)
	})
	command, _, _ := strings.Cut(remedy, ", with ")
	if output, err := release.runBlock(t, command); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	release.waitGood(t)
	release.runShare(t, "after")
}
