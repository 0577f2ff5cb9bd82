package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const exclusiveCondition = "MGPUCardsExclusive"

func wholeCondition(node *corev1.Node, kind string) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if string(condition.Type) == kind {
			return condition
		}
	}
	return corev1.NodeCondition{}
}

// createSlice creates the ResourceSlice with which a driver offers devices of the node.
func (w *PluginWorld) createSlice(t *testing.T, driver, node string) {
	t.Helper()
	slices := plane.admin.ResourceV1().ResourceSlices()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + node},
		Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
	if _, err := slices.Create(w.ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slices.Delete(w.ctx, slice.Name, metav1.DeleteOptions{}) })
}

func (w *PluginWorld) waitCondition(t *testing.T, plugin *DevicePlugin) corev1.NodeCondition {
	t.Helper()
	var condition corev1.NodeCondition
	waitFor(t, time.Minute, "the condition "+exclusiveCondition, func() (bool, string) {
		condition = wholeCondition(w.node(t, w.own), exclusiveCondition)
		return condition.Type != "", plugin.logText()
	})
	return condition
}

func TestTheDevicePluginReportsOtherAccessToTheCards(t *testing.T) {
	world := newPluginWorld(t)
	world.createSlice(t, "gpu.nvidia.com", world.own)
	if err := world.patch(plane.admin, world.own, `{"status":{"capacity":{"nvidia.com/gpu":"8"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
	plugin := world.startPlugin(t, world.podToken(t, world.own))
	condition := world.waitCondition(t, plugin)
	if condition.Status != corev1.ConditionFalse || condition.Reason != "NvidiaDevicePlugin" ||
		!strings.Contains(condition.Message, "the node has nvidia.com/gpu") ||
		!strings.Contains(condition.Message, "a ResourceSlice of gpu.nvidia.com") {
		t.Errorf("the condition is %+v, want both findings", condition)
	}
	waitFor(t, time.Minute, "an Event for each finding", func() (bool, string) {
		events, err := plane.admin.CoreV1().Events("default").List(world.ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + world.own + ",reason=MGPUOtherAccess"})
		return err == nil && len(events.Items) == 2, fmt.Sprint(events, err, plugin.logText())
	})
	metrics := plugin.metrics(t)
	for _, reason := range []string{"NvidiaDevicePlugin", "NvidiaDRADriver"} {
		if value := metrics.with("mgpu_other_access", `reason="`+reason+`"`); value != 1 {
			t.Errorf("the metric for %s is %v, want 1", reason, value)
		}
	}
	world.waitHealth(t, plugin, "another device plugin gives it out as nvidia.com/gpu; remove that from the node")
	if err := world.patch(plane.admin, world.own, `{"status":{"capacity":{"nvidia.com/gpu":"0"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
	world.waitHealth(t, plugin, "Healthy")
}

// waitHealth waits until the node publishes this health of its first card.
func (w *PluginWorld) waitHealth(t *testing.T, plugin *DevicePlugin, health string) {
	t.Helper()
	waitFor(t, time.Minute, "cards with the health "+health, func() (bool, string) {
		published := w.node(t, w.own).Annotations[cardsKey]
		return strings.Contains(published, `"health":"`+health+`"`), published + plugin.logText()
	})
}

// The runtime does not name its handlers here, and nothing else is unknown: the plugin may list the slices.
func TestTheDevicePluginDoesNotCountTheDriversOfOthers(t *testing.T) {
	world := newPluginWorld(t)
	world.createSlice(t, "gpu.nvidia.com", world.other)
	world.createSlice(t, "network.example.com", world.own)
	condition := world.waitCondition(t, world.startPlugin(t, world.podToken(t, world.own)))
	if condition.Status != corev1.ConditionUnknown || !strings.Contains(condition.Message, "does not report its default runtime") ||
		strings.Contains(condition.Message, "resourceslices") {
		t.Errorf("the condition is %+v, want only the runtime to be unknown", condition)
	}
}

// As for the extender, see TestMetricsInTheNetworkNeedATokenWithTheRight. The plugin asks the API server with the
// rights that it has on its node.
func TestTheDevicePluginsMetricsInTheNetworkNeedATokenWithTheRight(t *testing.T) {
	world := newPluginWorld(t)
	authority, err := newAuthority(t.TempDir(), "mgpu-metrics-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := issue(t, authority, "metrics")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	plugin := world.startPlugin(t, world.podToken(t, world.own), "--metrics-tls-cert-file", serving.certificate,
		"--metrics-tls-key-file", serving.key, "--metrics-bind-address", fmt.Sprint("0.0.0.0:", port))
	client := httpsClient(t, authority, nil)
	waitStatus := func(path, token string, want int) {
		t.Helper()
		waitFor(t, time.Minute, fmt.Sprintf("%s to be answered with %d", path, want), func() (bool, string) {
			status, body, err := getWithToken(t, client, port, path, token)
			return err == nil && status == want, fmt.Sprintf("%d %.200s %v", status, body, err)
		})
	}
	waitStatus("/livez", "", http.StatusOK)
	bindReaderRole(world.ctx, t, "mgpu-metrics-reader", metricsUser)
	// The authorizer of the API server learns of the binding from a watch, and mgpu keeps a result for 10 s.
	waitStatus("/metrics", metricsToken, http.StatusOK)
	for _, one := range []struct {
		path, token string
		status      int
	}{
		{"/metrics", "", 401}, {"/metrics", "no-such-token", 401}, {"/metrics", nobodyToken, 403},
		{"/metrics", adminToken, 200}, {"/allocations", "", 401}, {"/allocations", metricsToken, 403},
		{"/allocations", adminToken, 200}, {"/drift", "", 401}, {"/version", "", 401},
	} {
		status, body, err := getWithToken(t, client, port, one.path, one.token)
		if err != nil || status != one.status {
			t.Errorf("%s with token %q: %d %.200s %v, want %d", one.path, one.token, status, body, err, one.status)
		}
	}
	bindReaderRole(world.ctx, t, "mgpu-inspection-reader", inspectionUser)
	for _, path := range []string{"/allocations", "/drift"} {
		waitStatus(path, inspectionToken, http.StatusOK)
	}
	if status, body, err := getWithToken(t, client, port, "/metrics", inspectionToken); err != nil || status != 403 {
		t.Errorf("/metrics for the reader of inspection: %d %.200s %v, want 403", status, body, err)
	}
	log, err := os.ReadFile(plugin.path("log"))
	if err != nil || strings.Contains(string(log), metricsToken) || strings.Contains(string(log), "no-such-token") {
		t.Errorf("the log contains a token, or cannot be read: %v", err)
	}
}
