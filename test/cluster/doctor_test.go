package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// DoctorFinding is one finding in the output of kubectl mgpu doctor.
type DoctorFinding struct {
	Check   string   `json:"check"`
	Status  string   `json:"status"`
	Message string   `json:"message"`
	Remedy  string   `json:"remedy"`
	Objects []string `json:"objects"`
}

// DoctorReport is that output, and the exit code.
type DoctorReport struct {
	Healthy  bool            `json:"healthy"`
	Findings []DoctorFinding `json:"findings"`
	code     int
}

// find returns the first finding of a check with this status.
func (r *DoctorReport) find(check, status string) *DoctorFinding {
	at := slices.IndexFunc(r.Findings, func(f DoctorFinding) bool { return f.Check == check && f.Status == status })
	if at < 0 {
		return nil
	}
	return &r.Findings[at]
}

// expect fails the test unless there is such a finding, whose sentence contains `message`.
func (r *DoctorReport) expect(t *testing.T, check, status, message string) *DoctorFinding {
	t.Helper()
	found := r.find(check, status)
	if found == nil || !strings.Contains(found.Message, message) {
		t.Fatalf("want %s of %s with %q, got %+v", status, check, message, r.Findings)
	}
	return found
}

// runDoctor runs kubectl-mgpu doctor with the credentials of a token, and with the kubectl of these tests.
func runDoctor(t *testing.T, token string, flags ...string) *DoctorReport {
	t.Helper()
	command := exec.Command(kubectlMgpuBinary(t), append([]string{"doctor", "--output", "json",
		"--kubeconfig", plane.kubeconfig(token)}, flags...)...)
	command.Env = append(os.Environ(), "PATH="+plane.binaries+":/usr/bin:/bin")
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	err := command.Run()
	report := &DoctorReport{code: command.ProcessState.ExitCode()}
	if json.Unmarshal(output.Bytes(), report) != nil || problems.Len() > 0 {
		t.Fatalf("%v\n%s\n%s", err, output.Bytes(), problems.Bytes())
	}
	if report.Healthy != (report.code == 0) {
		t.Errorf("exit code %d and healthy %v", report.code, report.Healthy)
	}
	return report
}

// doctor runs it against the extender's real listener.
func (w *World) doctor(t *testing.T, token string) *DoctorReport {
	t.Helper()
	return runDoctor(t, token, "--selector", "doctor=yes",
		"--url", fmt.Sprintf("http://127.0.0.1:%d", w.extender.metricsPort))
}

// newDoctorWorld returns a cluster with one node, as a device plugin outside of a pod describes it, and a
// pod that kube-scheduler has bound through the extender.
func newDoctorWorld(t *testing.T) *World {
	t.Helper()
	world := newWorld(t, 1)
	nodes := plane.admin.CoreV1().Nodes()
	node, err := nodes.Patch(world.ctx, world.nodes[0], types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"doctor":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []corev1.NodeConditionType{"MGPUReady", "MGPUCardsExclusive"} {
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Test"})
	}
	if _, err := nodes.UpdateStatus(world.ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(world.ctx, t, world.pod("some").share(10, 1024))
	waitBound(world.ctx, t, world.namespace, "some")
	return world
}

func TestDoctorFindsNothingInAGoodInstallation(t *testing.T) {
	report := newDoctorWorld(t).doctor(t, adminToken)
	if report.code != 0 {
		t.Errorf("exit code %d: %+v", report.code, report.Findings)
	}
	report.expect(t, "api-server", "ok", "has version v1.")
	report.expect(t, "clock", "ok", "agree")
	report.expect(t, "rights", "ok", "have their rights")
	report.expect(t, "policies", "ok", "are present and deny")
	report.expect(t, "extender", "ok", "is ready")
	report.expect(t, "leader", "note", "a process outside of pods")
	report.expect(t, "scheduler", "ok", "kube-scheduler calls the extender")
	report.expect(t, "nodes", "ok", "1 node with cards")
	report.expect(t, "pods", "ok", "agree, for 1 bound pod")
	// These nodes have no kubelet that could be asked.
	report.expect(t, "kubelets", "note", "were not checked")
}

func TestDoctorNamesAMissingPolicy(t *testing.T) {
	world := newDoctorWorld(t)
	policies := plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	const name = "mgpu-extender-touch"
	policy, err := policies.Get(world.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := policies.Delete(world.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		policy.ResourceVersion, policy.UID = "", ""
		if _, err := policies.Create(context.Background(), policy, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	report := world.doctor(t, adminToken)
	found := report.expect(t, "policies", "warning", "a ValidatingAdmissionPolicy of mgpu is missing")
	if !slices.Equal(found.Objects, []string{name}) || !strings.Contains(found.Remedy, "deploy/manifests/mgpu.yaml") {
		t.Errorf("got %+v", found)
	}
	if report.code != 1 {
		t.Errorf("exit code %d, want 1", report.code)
	}
}

func TestDoctorNamesAForeignHolderOfTheLease(t *testing.T) {
	world := newDoctorWorld(t)
	leases := plane.admin.CoordinationV1().Leases("kube-system")
	hold := func(ctx context.Context, holder string) (before string) {
		lease, err := leases.Get(ctx, "mgpu-extender", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before, lease.Spec.HolderIdentity = *lease.Spec.HolderIdentity, &holder
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return before
	}
	holder := hold(world.ctx, "somebody-else")
	t.Cleanup(func() { hold(context.Background(), holder) })
	report := world.doctor(t, adminToken)
	report.expect(t, "leader", "error", `is held by "somebody-else", which is no living pod of mgpu-extender`)
	if report.code != 1 {
		t.Errorf("exit code %d, want 1", report.code)
	}
}

// A holder that has the form of an extender, and is none of its pods.
func TestDoctorComparesTheHolderWithThePodsOfTheExtender(t *testing.T) {
	world := newDoctorWorld(t)
	pods := plane.admin.CoreV1().Pods("kube-system")
	pod := newPod("kube-system", "doctor-test-extender").container("extender", "", "").build()
	pod.Labels = map[string]string{"app.kubernetes.io/name": "mgpu", "app.kubernetes.io/component": "extender"}
	pod.Spec.SchedulerName = "nobody"
	pod, err := pods.Create(world.ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	none := int64(0)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
	})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(world.ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	world.doctor(t, adminToken).expect(t, "leader", "error", "which is no living pod of mgpu-extender")
}

func TestDoctorNamesMissingRightsOfAServiceAccount(t *testing.T) {
	world := newDoctorWorld(t)
	withoutBinding(world.ctx, t, "mgpu-device-plugin", func() bool {
		return !slices.Contains(rightsOf(world.ctx, t, world.namespace, pluginToken), "patch nodes/status")
	})
	found := world.doctor(t, adminToken).expect(t, "rights", "error",
		"the service account kube-system/mgpu-device-plugin lacks rights")
	if !slices.Contains(found.Objects, "patch nodes/status") ||
		!strings.Contains(found.Remedy, "deploy/manifests/mgpu.yaml") {
		t.Errorf("got %+v", found)
	}
}

// What the user may not read is said, and the other checks go on.
func TestDoctorSaysWhatTheUserMayNotRead(t *testing.T) {
	world := newDoctorWorld(t)
	report := world.doctor(t, nobodyToken)
	report.expect(t, "nodes", "unknown", "list nodes: HTTP 403")
	report.expect(t, "policies", "unknown", "list ValidatingAdmissionPolicies: HTTP 403")
	report.expect(t, "leader", "unknown", "get the Lease in namespace mgpu-system: HTTP 403")
	report.expect(t, "rights", "note", "were not checked")
	report.expect(t, "api-server", "ok", "has version")
	report.expect(t, "versions", "ok", "all programs have version")
	if report.code != 1 {
		t.Errorf("exit code %d, want 1", report.code)
	}
}

// A pod that is bound past the extender has no cards.
func TestDoctorNamesAPodThatTheExtenderHasNotBound(t *testing.T) {
	world := newDoctorWorld(t)
	pod := create(world.ctx, t, world.pod("stray").share(10, 1024).scheduler("nobody"))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target: corev1.ObjectReference{Kind: "Node", Name: world.nodes[0]}}
	if err := plane.admin.CoreV1().Pods(pod.Namespace).Bind(world.ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteNow(context.Background(), t, world.namespace, "stray") })
	waitFor(t, time.Minute, "the finding", func() (bool, string) {
		report := world.doctor(t, adminToken)
		found := report.find("pods", "error")
		return found != nil && strings.Contains(found.Message, "was bound without annotations") &&
			slices.Equal(found.Objects, []string{world.namespace + "/stray"}), fmt.Sprintf("%+v", found)
	})
}

// kube-scheduler does not start with two extenders that bind, and the doctor knows why.
func TestDoctorFindsTwoExtendersThatBind(t *testing.T) {
	world := newDoctorWorld(t)
	var configuration map[string]any
	if err := yaml.Unmarshal(plane.renderScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml"}), &configuration); err != nil {
		t.Fatal(err)
	}
	other := map[string]any{"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter",
		"bindVerb": "bind", "managedResources": []any{map[string]any{"name": "aliyun.com/gpu-mem"}}}
	configuration["extenders"] = append(configuration["extenders"].([]any), other)
	text, err := yaml.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(world.ctx, time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, filepath.Join(plane.binaries, "kube-scheduler"), "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "only one extender can implement bind") {
		t.Fatalf("kube-scheduler says %v: %s", err, output)
	}
	maps := plane.admin.CoreV1().ConfigMaps("kube-system")
	const name = "doctor-test-scheduler"
	if _, err := maps.Create(world.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string]string{"kube-scheduler.yaml": string(text)}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = maps.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	found := world.doctor(t, adminToken).expect(t, "scheduler", "error", "several extenders have a bindVerb")
	if !slices.Equal(found.Objects, []string{"ConfigMap kube-system/" + name}) {
		t.Errorf("got %+v", found)
	}
}

// kube-scheduler takes such a resource for one of DRA on nodes that have none of it.
func TestADeviceClassThatTakesOverAResourceIsRefusedAndNamed(t *testing.T) {
	world := newDoctorWorld(t)
	classes := plane.admin.ResourceV1().DeviceClasses()
	create := func(resource string, dryRun ...string) error {
		_, err := classes.Create(world.ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "takes"},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &resource}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	const name = "mgpu-resources-of-device-classes"
	refused := func() (bool, string) {
		err := create(coreResource, metav1.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `DeviceClass "takes" has `+
			`spec.extendedResourceName "`+coreResource+`", which is a resource of mgpu; expected another name`), fmt.Sprint(err)
	}
	waitFor(t, time.Minute, "the policy to hold", refused)
	if err := create(memoryResource, metav1.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("with %s: %v", memoryResource, err)
	}
	if err := create("example.com/gpu", metav1.DryRunAll); err != nil {
		t.Error(err)
	}
	// One that is older than the policy.
	bindings := plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(world.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(world.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = classes.Delete(context.Background(), "takes", metav1.DeleteOptions{})
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(context.Background(), binding, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, time.Minute, "a DeviceClass to be created", func() (bool, string) {
		err := create(coreResource)
		return err == nil, fmt.Sprint(err)
	})
	found := world.doctor(t, adminToken).expect(t, "scheduler", "error", "a DeviceClass has spec.extendedResourceName "+coreResource)
	if !slices.Equal(found.Objects, []string{"DeviceClass takes"}) || !strings.Contains(found.Remedy, "remove spec.extendedResourceName") {
		t.Errorf("got %+v", found)
	}
}
