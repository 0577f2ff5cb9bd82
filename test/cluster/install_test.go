package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The tests of this file install the chart with helm, on a cluster with kube-controller-manager, kube-proxy
// and the images of deploy/images.

func TestInstallGivesAPodItsCard(t *testing.T) {
	release := installed(t)
	release.runShare(t, "share")
}

func TestInstallSpreadsTwoReplicasWithABudget(t *testing.T) {
	release := installed(t)
	if pods := release.podsOf(t, "extender"); len(pods) != 2 {
		t.Errorf("the extender has the pods %v, want two", pods)
	}
	budget, err := plane.admin.PolicyV1().PodDisruptionBudgets(releaseNamespace).Get(release.ctx, "mgpu-extender",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if budget.Status.DisruptionsAllowed != 1 || budget.Status.ExpectedPods != 2 {
		t.Errorf("the budget has the status %+v, want one disruption of two pods", budget.Status)
	}
}

func TestInstallHelmTestShowsTheCard(t *testing.T) {
	release := installed(t)
	output := release.mustHelm(t, "test", releaseName, "--logs", "--timeout", helmTimeout)
	if !strings.Contains(output, "The container has 1 % and 1024 MiB of card 0, GPU-00000000.") &&
		!strings.Contains(output, "The container has 1 % and 1024 MiB of card 1, GPU-00000001.") {
		t.Errorf("helm test says:\n%s", output)
	}
	// The driver of a card of a file limits nothing.
	if want := "Nothing limits it on its node: it can use the whole card."; !strings.Contains(output, want) {
		t.Errorf("helm test says:\n%s\nwant %s", output, want)
	}
}

// A test that cannot fail would not show that the chart works.
func TestInstallHelmTestFailsWithoutTheDevicePlugin(t *testing.T) {
	release := installed(t)
	release.node.label(t, "false")
	waitFor(t, podsGoneLimit, "the device plugin to end", func() (bool, string) {
		core := release.node.object(t).Status.Allocatable[coreResource]
		return core.IsZero(), core.String()
	})
	if output, err := release.helm("test", releaseName, "--timeout", "15s"); err == nil {
		t.Errorf("helm test succeeds without a device plugin:\n%s", output)
	}
	// On a slow machine it fails within this time in any case.
	waitPending(release.ctx, t, releaseNamespace, "mgpu-test-share", "Insufficient "+coreResource)
}

func TestInstallUpgradeReplacesThePodsOfMgpuOnly(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	extenders, plugins := release.podsOf(t, "extender"), release.podsOf(t, "device-plugin")
	release.upgrade(t, "extender.logLevel=debug", "devicePlugin.logLevel=debug")
	for component, old := range map[string][]string{"extender": extenders, "device-plugin": plugins} {
		waitFor(t, podsGoneLimit, "the new pods of the "+component, func() (bool, string) {
			now := release.podsOf(t, component)
			kept := slices.ContainsFunc(now, func(name string) bool { return slices.Contains(old, name) })
			return len(now) == len(old) && !kept, fmt.Sprint(now)
		})
	}
	release.waitOffered(t)
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallRollbackRestoresTheValues(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	release.upgrade(t, "extender.policy=binpack")
	release.mustHelm(t, "rollback", releaseName, "1", "--wait", "--timeout", helmTimeout)
	deployment, err := plane.admin.AppsV1().Deployments(releaseNamespace).Get(release.ctx, "mgpu-extender",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if flags := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(flags, "--policy=equilibrium") {
		t.Errorf("the extender has the flags %v, want --policy=equilibrium", flags)
	}
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallUninstallLeavesPodsWithCardsRunning(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	release.uninstall(t)
	release.checkUntouched(t, before)
}

func TestInstallDocumentationRemovesWhatIsLeft(t *testing.T) {
	release := installed(t)
	release.uninstall(t)
	release.runDocumented(t, "kubectl delete namespace")
	node := release.node.object(t)
	_, annotated := node.Annotations[cardsKey]
	_, labelled := node.Labels[domain+"/mgpu-node"]
	_, has := node.Status.Capacity[memoryResource]
	tainted := slices.ContainsFunc(node.Spec.Taints, func(one corev1.Taint) bool { return strings.HasPrefix(one.Key, domain) })
	if has || annotated || labelled || tainted {
		t.Errorf("the node has the annotations %v, labels %v, taints %v and capacity %v", node.Annotations, node.Labels,
			node.Spec.Taints, node.Status.Capacity)
	}
}

// kube-scheduler has the CA of the Secret in its files, so that it must stay.
func TestInstallAgainUsesTheSameCertificates(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	secret := func() map[string][]byte {
		found, err := plane.admin.CoreV1().Secrets(releaseNamespace).Get(release.ctx, certificatesSecret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.Data
	}
	first := secret()
	release.uninstall(t)
	freeExtenderService(t)
	release.install(t)
	if !reflect.DeepEqual(secret(), first) {
		t.Error("the certificates in the Secret have changed")
	}
	release.waitOffered(t)
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallSchedulerOfTheChartIsTheOnlyOneForCards(t *testing.T) {
	release := newRelease(t)
	release.node.importScheduler(t)
	release.install(t, "scheduler.enabled=true")
	_, err := plane.admin.CoreV1().Pods(release.namespace).Create(release.ctx,
		release.pod("other").share(30, 1024).scheduler("other").runs().build(), metav1.CreateOptions{})
	want := `and has spec.schedulerName "other"; expected "mgpu-scheduler", because no other scheduler`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
	plain := create(release.ctx, t, release.pod("plain").container("c", "", "").runs())
	if name := plain.Spec.SchedulerName; name != "default-scheduler" {
		t.Errorf("a pod without cards has the scheduler %s", name)
	}
	release.waitRunning(t, "plain")
	release.waitOffered(t)
	release.runShare(t, "share")
	events, err := plane.admin.CoreV1().Events(release.namespace).List(release.ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=share,reason=Scheduled"})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) != 1 || events.Items[0].ReportingController != "mgpu-scheduler" {
		t.Errorf("the pod has the events %+v, want one of mgpu-scheduler", events.Items)
	}
}

func TestInstallPoliciesNameTheNamespaceOfTheRelease(t *testing.T) {
	release := installed(t)
	pod := release.runShare(t, "share")
	err := release.patchPod(release.clientAs(t, "mgpu-extender"), pod, `{"status":{"message":"x"}}`, "status")
	if err == nil || !strings.Contains(err.Error(), "mgpu-extender may change no field") {
		t.Errorf("the error is %v, want that of the policy mgpu-extender-touch", err)
	}
	err = release.patchPod(plane.admin, pod, `{"metadata":{"annotations":{"`+indexKeyPrefix+`c0":"1"}}}`)
	if err == nil || !strings.Contains(err.Error(), "are written only when a scheduler binds") {
		t.Errorf("the error is %v, want that of the policy mgpu-cards-of-bound-pods", err)
	}
	node := release.clientAs(t, "mgpu-device-plugin").CoreV1().Nodes()
	_, err = node.Patch(release.ctx, nodeName, types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
		metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "the credentials of mgpu-device-plugin name no node") {
		t.Errorf("the error is %v, want that of the policy mgpu-device-plugin-node", err)
	}
}

// Whoever may forward ports to the extender's pods may read inspection, without a token.
func TestInstallPortForwardReachesInspection(t *testing.T) {
	release := installed(t)
	address := release.forwardPort(t, "deployment/mgpu-extender", "9802")
	status, text, err := read(http.Get("http://" + address + "/inspect/cluster"))
	if err != nil || status != http.StatusOK || !strings.Contains(text, release.plugin.cards[0].UUID) {
		t.Errorf("inspection answers %d %s %v, want the cards", status, text, err)
	}
}

func TestInstallMetricsNeedATokenInTheNetwork(t *testing.T) {
	release := installed(t)
	pods := release.podsOf(t, "extender")
	if len(pods) == 0 {
		t.Fatal("the release has no extender")
	}
	for _, pod := range pods {
		address := get(release.ctx, t, releaseNamespace, pod).Status.PodIP
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		status, _, err := read(insecure.Get("https://" + address + ":9802/metrics"))
		if err != nil || status != http.StatusUnauthorized {
			t.Errorf("metrics of %s answer %d %v, want 401", pod, status, err)
		}
	}
}

func TestInstallTheExtenderWritesTheEndpointsOfItsServiceOnly(t *testing.T) {
	release := installed(t)
	slices := release.clientAs(t, "mgpu-extender").DiscoveryV1().EndpointSlices(releaseNamespace)
	other := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Name: "other", Labels: map[string]string{discoveryv1.LabelServiceName: "other"}}}
	_, err := slices.Create(release.ctx, other, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "mgpu-extender may write no EndpointSlice but") {
		t.Errorf("the error is %v, want that of the policy", err)
	}
	own, err := slices.Get(release.ctx, "mgpu-extender", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own.Labels[discoveryv1.LabelServiceName] = "other"
	_, err = slices.Update(release.ctx, own, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), "mgpu-extender may write no EndpointSlice but") {
		t.Errorf("the error is %v, want that of the policy", err)
	}
}

func TestInstallRunsAnExtenderOnTheLoopbackOfControlPlaneNodes(t *testing.T) {
	release := newRelease(t)
	release.node.labelControlPlane(t)
	release.install(t, "extender.loopback=true")
	release.useScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: "http://127.0.0.1:9800/mgpu"})
	release.waitOffered(t)
	release.runShare(t, "share")
}

// labelControlPlane labels the node as kubeadm labels its control-plane nodes, until the end of the test.
func (n *Node) labelControlPlane(t testing.TB) {
	t.Helper()
	patch := func(value string) error {
		_, err := n.plane.admin.CoreV1().Nodes().Patch(context.Background(), nodeName, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":`+value+`}}}`), metav1.PatchOptions{})
		return err
	}
	if err := patch(`""`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := patch("null"); err != nil {
			t.Error(err)
		}
	})
}

func TestInstallAnotherReplicaTakesOver(t *testing.T) {
	release := installed(t)
	before := release.waitLeader(t, "")
	leases := plane.admin.CoordinationV1().Leases(releaseNamespace)
	lease, err := leases.Get(release.ctx, "mgpu-extender", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := *lease.Spec.HolderIdentity
	pod := holder[:strings.LastIndex(holder, "_")]
	if err := plane.admin.CoreV1().Pods(releaseNamespace).Delete(release.ctx, pod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	release.waitLeader(t, before)
	release.runShare(t, "share")
}

func TestInstallRefusesASecondRelease(t *testing.T) {
	release := installed(t)
	_, err := release.helm(append([]string{"install", "other", deployPath("chart")}, release.flags(t)...)...)
	if err == nil || !strings.Contains(err.Error(), `must equal "other": current value is "mgpu"`) {
		t.Errorf("the error is %v, want that the objects belong to another release", err)
	}
}

// checkUntouched checks that the containers of a pod have not been started again.
func (r *Release) checkUntouched(t testing.TB, before *corev1.Pod) {
	t.Helper()
	after := get(r.ctx, t, r.namespace, before.Name)
	if !sameContainers(before, after) {
		t.Errorf("the containers of %s were %+v, and are %+v", before.Name, before.Status.ContainerStatuses,
			after.Status.ContainerStatuses)
	}
	for i, status := range after.Status.ContainerStatuses {
		was := before.Status.ContainerStatuses[i].State.Running.StartedAt
		if running := status.State.Running; running == nil || !running.StartedAt.Equal(&was) {
			t.Errorf("container %s of %s started at %v, and is %+v", status.Name, before.Name, was, status.State)
		}
	}
}
