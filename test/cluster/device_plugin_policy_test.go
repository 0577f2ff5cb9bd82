package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	pluginNodePolicy   = "mgpu-device-plugin-node"
	pluginEventsPolicy = "mgpu-device-plugin-events"
	pluginAccount      = "mgpu-device-plugin"
	taintKey           = domain + "/mgpu-needs-cpu"
)

// PluginWorld is a node with the credentials of its device plugin, and another node.
type PluginWorld struct {
	ctx        context.Context
	own, other string
}

func newPluginWorld(t *testing.T) *PluginWorld {
	t.Helper()
	world := &PluginWorld{ctx: context.Background(), own: "plugin-own", other: "plugin-other"}
	for _, name := range []string{world.own, world.other} {
		plane.createNode(world.ctx, t, name, 1)
	}
	// The plugin has not run yet.
	if err := world.patch(plane.admin, world.own, `{"metadata":{"annotations":{"`+cardsKey+`":null}}}`); err != nil {
		t.Fatal(err)
	}
	nobody, dryRun := clientOf(t, pluginToken), []string{metav1.DryRunAll}
	waitFor(t, time.Minute, "the policies of the device plugin", func() (bool, string) {
		_, node := nobody.CoreV1().Nodes().Patch(world.ctx, world.own, types.MergePatchType,
			[]byte(annotationPatch(cardsKey, "probe")), metav1.PatchOptions{DryRun: dryRun})
		_, event := nobody.CoreV1().Events("default").Create(world.ctx, world.event("probe"),
			metav1.CreateOptions{DryRun: dryRun})
		return refusedBy(pluginNodePolicy, node) && refusedBy(pluginEventsPolicy, event), fmt.Sprint(node, event)
	})
	return world
}

// token returns a token of the service account, bound to an object or, without one, to nothing.
func (w *PluginWorld) token(t *testing.T, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	answer, err := plane.admin.CoreV1().ServiceAccounts("kube-system").
		CreateToken(w.ctx, pluginAccount, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// podToken returns the token that a pod of a DaemonSet has on the node.
func (w *PluginWorld) podToken(t *testing.T, node string) string {
	t.Helper()
	builder := newPod("kube-system", "mgpu-device-plugin-on-"+node).container("app", "", "").onNode(node)
	builder.pod.Spec.ServiceAccountName = pluginAccount
	pod := create(w.ctx, t, builder)
	t.Cleanup(func() { deleteNow(w.ctx, t, pod.Namespace, pod.Name) })
	return w.token(t, &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name,
		UID: pod.UID})
}

func (w *PluginWorld) nodeToken(t *testing.T, node string) string {
	t.Helper()
	return w.token(t, &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node,
		UID: w.node(t, node).UID})
}

// userClient returns a client of a user in the group of plugins that have client certificates.
func (w *PluginWorld) userClient(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: plane.serverURL(), BearerToken: adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: plane.authority.file()},
		Impersonate:     rest.ImpersonationConfig{UserName: user, Groups: []string{"mgpu-device-plugins"}}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (w *PluginWorld) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := plane.admin.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// patch sends the patch to the node itself as the plugin does, as a merge patch, and to its status as a
// strategic merge patch.
func (w *PluginWorld) patch(client kubernetes.Interface, node, body string, subresources ...string) error {
	kind := types.MergePatchType
	if len(subresources) > 0 {
		kind = types.StrategicMergePatchType
	}
	_, err := client.CoreV1().Nodes().Patch(w.ctx, node, kind, []byte(body), metav1.PatchOptions{}, subresources...)
	return err
}

func (w *PluginWorld) patchCards(client kubernetes.Interface, node string) error {
	return w.patch(client, node, annotationPatch(cardsKey, "published at "+time.Now().String()))
}

func (w *PluginWorld) patchReady(client kubernetes.Interface, node string) error {
	return w.patch(client, node, conditionPatch("MGPUReady", time.Now().String()), "status")
}

func annotationPatch(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

func conditionPatch(kind, message string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","message":%q}]}}`, kind, message)
}

// event is one that the plugin of the own node writes about this node.
func (w *PluginWorld) event(name string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: w.own, APIVersion: "v1"},
		Reason:         "MGPUCardUnhealthy", Message: "card 0 is not healthy", Type: corev1.EventTypeWarning,
		Source:              corev1.EventSource{Component: "mgpu-device-plugin", Host: w.own},
		ReportingController: "mgpu-device-plugin", ReportingInstance: w.own,
		FirstTimestamp: now, LastTimestamp: now, Count: 1}
}

func TestADevicePluginChangesOnlyItsOwnNode(t *testing.T) {
	world := newPluginWorld(t)
	for name, client := range map[string]kubernetes.Interface{
		"the token of a pod":               clientOf(t, world.podToken(t, world.own)),
		"a token bound to the Node":        clientOf(t, world.nodeToken(t, world.own)),
		"the user of a client certificate": world.userClient(t, "mgpu-device-plugin:"+world.own),
	} {
		for what, patch := range map[string]func(kubernetes.Interface, string) error{
			"the annotation": world.patchCards, "the condition": world.patchReady} {
			if err := patch(client, world.own); err != nil {
				t.Errorf("%s changes %s of its node: %v", name, what, err)
			}
			err := patch(client, world.other)
			want := "mgpu-device-plugin of node " + world.own + " may not change node " + world.other
			if !refusedBy(pluginNodePolicy, err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s changes %s of another node: %v, want refused", name, what, err)
			}
		}
	}
}

func TestADevicePluginWithCredentialsForNoNodeChangesNothing(t *testing.T) {
	world := newPluginWorld(t)
	for name, client := range map[string]kubernetes.Interface{
		"a token bound to nothing":     clientOf(t, world.token(t, nil)),
		"a token of a file":            clientOf(t, pluginToken),
		"a user without a node":        world.userClient(t, "mgpu-device-plugin"),
		"a user with an empty node":    world.userClient(t, "mgpu-device-plugin:"),
		"a user with a similar prefix": world.userClient(t, "mgpu-device-plugin-"+world.own),
	} {
		_, event := client.CoreV1().Events("default").Create(world.ctx, world.event("unbound"), metav1.CreateOptions{})
		for what, err := range map[string]error{
			pluginNodePolicy + "|annotation": world.patchCards(client, world.own),
			pluginNodePolicy + "|condition":  world.patchReady(client, world.own),
			pluginEventsPolicy + "|event":    event} {
			policy, _, _ := strings.Cut(what, "|")
			if !refusedBy(policy, err) || !strings.Contains(err.Error(), "name no node; expected the token of a pod") {
				t.Errorf("%s, %s: %v, want refused, with the credentials that are expected", name, what, err)
			}
		}
		if _, err := client.CoreV1().Nodes().Get(world.ctx, world.own, metav1.GetOptions{}); err != nil {
			t.Errorf("%s reads a node: %v", name, err)
		}
	}
}

// prepare gives the own node what others write: a label, an annotation, taints and a condition.
func (w *PluginWorld) prepare(t *testing.T) {
	t.Helper()
	for _, err := range []error{
		w.patch(plane.admin, w.own, `{"metadata":{"labels":{"zone":"a"},"annotations":{"kept":"yes"}},
			"spec":{"taints":[{"key":"others","effect":"NoSchedule"}]}}`),
		w.patch(plane.admin, w.own, conditionPatch("DiskPressure", "by kubelet"), "status"),
		w.patch(plane.admin, w.own, `{"status":{"allocatable":{"example.com/kept":"1"}}}`, "status"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestADevicePluginChangesOnlyItsFieldsOfItsNode(t *testing.T) {
	world := newPluginWorld(t)
	world.prepare(t)
	client := clientOf(t, world.podToken(t, world.own))
	others := `{"key":"others","effect":"NoSchedule"}`
	for name, one := range map[string]struct{ body, subresource string }{
		"another annotation":            {annotationPatch("added", "yes"), ""},
		"a removed annotation":          {`{"metadata":{"annotations":{"kept":null}}}`, ""},
		"an annotation with its status": {annotationPatch("kept", "no"), "status"},
		"a label":                       {`{"metadata":{"labels":{"zone":"b"}}}`, ""},
		"a label with its status":       {`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, "status"},
		"a finalizer":                   {`{"metadata":{"finalizers":["example.com/never"]}}`, ""},
		"unschedulable":                 {`{"spec":{"unschedulable":true}}`, ""},
		"a provider":                    {`{"spec":{"providerID":"other://node"}}`, ""},
		"a taint of others":             {`{"spec":{"taints":[` + others + `,{"key":"mine","effect":"NoExecute"}]}}`, ""},
		"a removed taint of others":     {`{"spec":{"taints":[]}}`, ""},
		"its taint with another effect": {
			`{"spec":{"taints":[` + others + `,{"key":"` + taintKey + `","effect":"NoExecute"}]}}`, ""},
		"another capacity":        {`{"status":{"capacity":{"cpu":"1"}}}`, "status"},
		"a new capacity":          {`{"status":{"capacity":{"example.com/new":"1"}}}`, "status"},
		"a removed capacity":      {`{"status":{"capacity":{"cpu":null}}}`, "status"},
		"the capacity of kubelet": {`{"status":{"capacity":{"` + coreResource + `":"900"}}}`, "status"},
		"an allocatable amount":   {`{"status":{"allocatable":{"` + memoryResource + `":"1"}}}`, "status"},
		"an address":              {`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`, "status"},
		"another condition":       {conditionPatch("Ready", "by a plugin"), "status"},
		"a removed condition":     {`{"status":{"conditions":[{"type":"DiskPressure","$patch":"delete"}]}}`, "status"},
		"images":                  {`{"status":{"images":[{"names":["example.com/image"],"sizeBytes":1}]}}`, "status"},
		"more than its condition": {`{"status":{"phase":"Terminated","conditions":[{"type":"MGPUReady",
			"status":"True","message":"x"}]}}`, "status"},
	} {
		before := world.node(t, world.own).ResourceVersion
		err := world.patch(client, world.own, one.body, subresourceList(one.subresource)...)
		if !refusedBy(pluginNodePolicy, err) || !strings.Contains(err.Error(), "mgpu-device-plugin may change no ") {
			t.Errorf("%s: %v, want refused by %s", name, err, pluginNodePolicy)
		}
		if world.node(t, world.own).ResourceVersion != before {
			t.Errorf("%s changed the node", name)
		}
	}
}

func TestADevicePluginWritesItsFieldsOfItsNode(t *testing.T) {
	world := newPluginWorld(t)
	world.prepare(t)
	client := clientOf(t, world.podToken(t, world.own))
	taints := `{"spec":{"taints":[{"key":"others","effect":"NoSchedule"}%s]}}`
	for _, one := range []struct{ name, body, subresource string }{
		{"its annotation", annotationPatch(cardsKey, "new"), ""},
		{"no annotation", `{"metadata":{"annotations":{"` + cardsKey + `":null}}}`, ""},
		{"its annotation again", annotationPatch(cardsKey, "new"), ""},
		{"its taint", fmt.Sprintf(taints, `,{"key":"`+taintKey+`","effect":"PreferNoSchedule"}`), ""},
		{"no taint", fmt.Sprintf(taints, ""), ""},
		{"its capacity", `{"status":{"capacity":{"` + memoryResource + `":"1024"}}}`, "status"},
		{"MGPUReady", conditionPatch("MGPUReady", "a"), "status"},
		{"MGPUCardsExclusive", conditionPatch("MGPUCardsExclusive", "a"), "status"},
		{"all of its status", `{"status":{"capacity":{"` + memoryResource + `":"2048"},
			"conditions":[{"type":"MGPUReady","status":"False"},{"type":"MGPUCardsExclusive","status":"False"}]}}`, "status"},
	} {
		before := world.node(t, world.own).ResourceVersion
		if err := world.patch(client, world.own, one.body, subresourceList(one.subresource)...); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
		if world.node(t, world.own).ResourceVersion == before {
			t.Errorf("%s: the node did not change", one.name)
		}
	}
}

// A node may have annotations of 256 KiB. The policy has to compare them within its limit of time.
func TestADevicePluginWritesToANodeWithManyAnnotations(t *testing.T) {
	world := newPluginWorld(t)
	annotations := map[string]string{}
	for i := range 10_000 {
		annotations[fmt.Sprint("example.com/", i)] = "1"
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	if err := world.patch(plane.admin, world.own, string(text)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := world.patchCards(clientOf(t, world.podToken(t, world.own)), world.own); err != nil {
		t.Error(err)
	}
	t.Logf("the patch took %v", time.Since(start))
}

func TestADevicePluginWritesOnlyEventsOfItsNode(t *testing.T) {
	world := newPluginWorld(t)
	client := clientOf(t, world.podToken(t, world.own))
	events := client.CoreV1().Events("default")
	pod := world.event("on-a-pod")
	pod.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Name: "some", Namespace: "default"}
	for _, event := range []*corev1.Event{world.event("on-its-node"), pod} {
		t.Cleanup(func() {
			_ = plane.admin.CoreV1().Events("default").Delete(world.ctx, event.Name, metav1.DeleteOptions{})
		})
		if _, err := events.Create(world.ctx, event, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", event.Name, err)
		}
		_, err := events.Patch(world.ctx, event.Name, types.MergePatchType,
			[]byte(`{"count":2,"lastTimestamp":"2026-01-01T00:00:00Z"}`), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("the count of %s: %v", event.Name, err)
		}
	}
	for name, change := range map[string]func(*corev1.Event){
		"of another node":      func(event *corev1.Event) { event.Source.Host = world.other },
		"of another component": func(event *corev1.Event) { event.Source.Component = "kubelet" },
		"on another node":      func(event *corev1.Event) { event.InvolvedObject.Name = world.other },
		"on another kind":      func(event *corev1.Event) { event.InvolvedObject.Kind = "Namespace" },
	} {
		event := world.event("refused")
		change(event)
		if _, err := events.Create(world.ctx, event, metav1.CreateOptions{}); !refusedBy(pluginEventsPolicy, err) {
			t.Errorf("an Event %s: %v, want refused by %s", name, err, pluginEventsPolicy)
		}
	}
	other := clientOf(t, world.podToken(t, world.other)).CoreV1().Events("default")
	_, err := other.Patch(world.ctx, "on-its-node", types.MergePatchType, []byte(`{"count":3}`), metav1.PatchOptions{})
	if !refusedBy(pluginEventsPolicy, err) {
		t.Errorf("the plugin of another node changes the Event: %v, want refused by %s", err, pluginEventsPolicy)
	}
}

// Everybody else writes to nodes and Events as before.
func TestThePoliciesOfTheDevicePluginDoNotConcernOthers(t *testing.T) {
	world := newPluginWorld(t)
	if err := world.patch(plane.admin, world.own, `{"metadata":{"labels":{"zone":"b"}},"spec":{"unschedulable":true}}`); err != nil {
		t.Error(err)
	}
	event := world.event("by-others")
	event.Source = corev1.EventSource{Component: "kubelet", Host: world.other}
	if _, err := plane.admin.CoreV1().Events("default").Create(world.ctx, event, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	_ = plane.admin.CoreV1().Events("default").Delete(world.ctx, event.Name, metav1.DeleteOptions{})
}

// startPlugin starts the real device plugin for the own node, without a kubelet.
func (w *PluginWorld) startPlugin(t *testing.T, token string, flags ...string) *DevicePlugin {
	t.Helper()
	plugin := w.newPlugin(t, token, flags...)
	plugin.start(t)
	return plugin
}

// newPlugin returns a plugin that has not been started.
func (w *PluginWorld) newPlugin(t *testing.T, token string, flags ...string) *DevicePlugin {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("device nodes of cards need root")
	}
	folder := t.TempDir()
	flags = append([]string{"--node-name", w.own, "--runtime-socket", fakeRuntime(t), "--device-plugin-dir", folder,
		"--kubeconfig", plane.kubeconfigAt(filepath.Join(folder, "kubeconfig"), token)}, flags...)
	return devicePluginOn(t, &Node{plane: plane, folder: folder}, v100s(2), flags...)
}

// fakeRuntime starts a container runtime that answers what the plugin asks, and returns its socket.
func fakeRuntime(t *testing.T) string {
	t.Helper()
	// The path of a socket has at most 107 bytes.
	folder, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	listener, err := net.Listen("unix", filepath.Join(folder, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	answer := func(_ any, stream grpc.ServerStream) error {
		var request, answer []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		if method, _ := grpc.MethodFromServerStream(stream); method == "/runtime.v1.RuntimeService/Version" {
			answer = []byte("\x12\x05cri-o\x1a\x061.33.1") // runtime_name and runtime_version
		}
		return stream.SendMsg(&answer)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(answer))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// The node has too little CPU for its cards, so that the plugin writes its taint, too.
func TestTheDevicePluginPublishesItsNodeUnderThePolicy(t *testing.T) {
	world := newPluginWorld(t)
	world.prepare(t)
	if err := world.patch(plane.admin, world.own, `{"status":{"allocatable":{"cpu":"2"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
	plugin := world.startPlugin(t, world.podToken(t, world.own))
	waitFor(t, time.Minute, "the plugin to publish its node", func() (bool, string) {
		node := world.node(t, world.own)
		memory := node.Status.Capacity[memoryResource]
		ready, tainted := false, false
		for _, condition := range node.Status.Conditions {
			ready = ready || (condition.Type == "MGPUReady" && condition.Reason == "KubeletAbsent")
		}
		for _, taint := range node.Spec.Taints {
			tainted = tainted || taint.Key == taintKey
		}
		return plugin.announcedIn(node.Annotations[cardsKey]) && memory.Value() == 2*cardMemoryMiB && ready && tainted,
			fmt.Sprint(node.Annotations, node.Status.Conditions, memory.String(), node.Spec.Taints, plugin.logText())
	})
	if strings.Contains(plugin.logText(), "publishing to the Node object failed") {
		t.Errorf("the plugin reports a failure:\n%s", plugin.logText())
	}
}

func TestTheDevicePluginSaysThatItsCredentialsAreForAnotherNode(t *testing.T) {
	world := newPluginWorld(t)
	before := world.node(t, world.own).ResourceVersion
	plugin := world.startPlugin(t, world.podToken(t, world.other))
	waitFor(t, time.Minute, "the log to name both nodes", func() (bool, string) {
		want := "mgpu-device-plugin of node " + world.other + " may not change node " + world.own
		return strings.Contains(plugin.logText(), want), plugin.logText()
	})
	if world.node(t, world.own).ResourceVersion != before {
		t.Error("the plugin changed the node")
	}
}

func TestADevicePluginWithoutTheRoleForEvictionsEvictsNoPod(t *testing.T) {
	world := newPluginWorld(t)
	namespace := newNamespace(world.ctx, t)
	withoutBinding(world.ctx, t, "mgpu-device-plugin-evict", func() bool {
		return apierrors.IsForbidden(evict(world.ctx, clientOf(t, pluginToken), namespace, "none"))
	})
	create(world.ctx, t, newPod(namespace, "kept").container("app", "", ""))
	err := evict(world.ctx, clientOf(t, world.podToken(t, world.own)), namespace, "kept")
	if !apierrors.IsForbidden(err) {
		t.Errorf("an eviction: %v, want forbidden", err)
	}
}

func evict(ctx context.Context, client kubernetes.Interface, namespace, pod string) error {
	return client.CoreV1().Pods(namespace).EvictV1(ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace}})
}
