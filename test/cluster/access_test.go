package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// All tests run the extender with this identity. This test lists its rights.
func TestTheExtenderHasExactlyTheRightsOfDeploy(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	client, err := plane.clientAs(extenderToken)
	if err != nil {
		t.Fatal(err)
	}
	everywhere := []string{
		"get pods", "list nodes", "list pods", "watch nodes", "watch pods",
		"delete pods", "get scheduling.k8s.io/podgroups", "create pods/binding", "patch pods/status", "create events", "patch events", "list policy/poddisruptionbudgets",
		"watch policy/poddisruptionbudgets",
		"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
	const capacities = "storage.k8s.io/csistoragecapacities"
	const leases = "coordination.k8s.io/leases"
	for scope, want := range map[string][]string{
		namespace: everywhere,
		"kube-system": append(slices.Clone(everywhere), "create "+capacities,
			"patch "+capacities+" [mgpu-requeue]", "create "+leases, "get "+leases+" [mgpu-extender]",
			"list "+leases+" [mgpu-extender]", "watch "+leases+" [mgpu-extender]", "update "+leases+" [mgpu-extender]",
			"get secrets [mgpu-extender-tls]", "patch secrets [mgpu-extender-tls]",
			"create discovery.k8s.io/endpointslices", "get discovery.k8s.io/endpointslices [mgpu-extender]",
			"update discovery.k8s.io/endpointslices [mgpu-extender]", "get services [mgpu-extender]"),
	} {
		checkRights(ctx, t, scope, extenderToken, want)
	}
	create(ctx, t, newPod(namespace, "some").share(10, 1024))
	_, err = client.CoreV1().Pods(namespace).Patch(ctx, "some", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("patching a pod: %v, want forbidden", err)
	}
}

func TestTheDevicePluginHasExactlyTheRightsOfDeploy(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	withoutBinding(ctx, t, "mgpu-device-plugin-evict", func() bool {
		return !slices.Contains(rightsOf(ctx, t, namespace, pluginToken), "create pods/eviction")
	})
	for _, token := range []string{pluginToken, nodeToken} {
		checkRights(ctx, t, namespace, token, []string{
			"get nodes", "list nodes", "watch nodes", "patch nodes", "patch nodes/status", "get pods", "list pods",
			"watch pods", "create events", "patch events", "list resource.k8s.io/resourceslices",
			"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"})
	}
}

func TestTheFileForEvictionsAddsTheRightToEvict(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	for _, token := range []string{pluginToken, nodeToken} {
		if rights := rightsOf(ctx, t, namespace, token); !slices.Contains(rights, "create pods/eviction") {
			t.Errorf("rights %v, want create pods/eviction", rights)
		}
	}
}

// checkRights compares the rights that a token has in a namespace with `want`. The rights that Kubernetes gives to
// all service accounts do not count: from 1.37 on they may read ClusterTrustBundles.
func checkRights(ctx context.Context, t *testing.T, namespace, token string, want []string) {
	t.Helper()
	got := rightsOf(ctx, t, namespace, token)
	basic := rightsOf(ctx, t, namespace, nobodyToken)
	got = slices.DeleteFunc(got, func(right string) bool { return slices.Contains(basic, right) })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("in %s: rights %v, want %v", namespace, got, want)
	}
}

func rightsOf(ctx context.Context, t *testing.T, namespace, token string) []string {
	t.Helper()
	client, err := plane.clientAs(token)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err = client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rights []string
	for _, rule := range review.Status.ResourceRules {
		for _, verb := range rule.Verbs {
			for i, resource := range rule.Resources {
				if group := rule.APIGroups[min(i, len(rule.APIGroups)-1)]; group != "" {
					resource = group + "/" + resource
				}
				if len(rule.ResourceNames) > 0 {
					resource += fmt.Sprint(" ", rule.ResourceNames)
				}
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}

func TestHTTPSNeedsAClientCertificate(t *testing.T) {
	ctx := context.Background()
	authority, err := newAuthority(t.TempDir(), "mgpu-extender-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := issue(t, authority, "extender", "mgpu-extender.kube-system.svc")
	scheduler := issue(t, authority, "kube-scheduler")
	extender := plane.extenderOn(t, "https", httpsClient(t, authority, &scheduler),
		"--listen-address", "0.0.0.0", "--tls-cert-file", serving.certificate, "--tls-key-file", serving.key,
		"--tls-client-ca-file", authority.file(), "--tls-client-names", "kube-scheduler")
	extender.start(t)
	extender.waitReady(t)
	namespace := newNamespace(ctx, t)
	plane.createNodes(ctx, t, "gpu-", 2)
	extender.waitNodes(t, 2)
	history := plane.beginHistory(ctx, t, namespace)

	bare := plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml",
		extenderURL: extender.url(),
		tls:         map[string]string{"caFile": authority.file(), "certFile": "", "keyFile": ""}})
	create(ctx, t, newPod(namespace, "share").share(30, 1024))
	waitPending(ctx, t, namespace, "share", "SchedulerError")
	bare.Kill()
	if _, _, err := withClient(extender, httpsClient(t, authority, nil)).getVerb("/mgpu/filter"); err == nil {
		t.Error("a client without a certificate got a response")
	}
	kubelet := issue(t, authority, "kubelet")
	status, body, err := withClient(extender, httpsClient(t, authority, &kubelet)).getVerb("/mgpu/filter")
	if err != nil || status != http.StatusForbidden || !strings.Contains(body, "no name that is allowed") {
		t.Errorf("a client of the CA with another name: %d %s %v, want 403", status, body, err)
	}
	if refused := extender.metrics(t).with("mgpu_extender_http_refused_total", `why="client_name"`); refused < 1 {
		t.Errorf("the metric of refused names is %v, want at least 1", refused)
	}
	other, err := newAuthority(t.TempDir(), "another-ca")
	if err != nil {
		t.Fatal(err)
	}
	pair := issue(t, other, "other")
	if _, _, err := withClient(extender, httpsClient(t, authority, &pair)).getVerb("/mgpu/filter"); err == nil {
		t.Error("a client with a certificate of another authority got a response")
	}

	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", extenderURL: extender.url(),
		tls: map[string]string{"caFile": authority.file(), "certFile": scheduler.certificate,
			"keyFile": scheduler.key}})
	waitBound(ctx, t, namespace, "share")
	history.check(ctx, t)
}

// Metrics and inspection show the pods of all namespaces.
func TestMetricsInTheNetworkNeedATokenWithTheRight(t *testing.T) {
	ctx := context.Background()
	authority, err := newAuthority(t.TempDir(), "mgpu-metrics-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := issue(t, authority, "metrics")
	extender := plane.extenderOn(t, "http", http.DefaultClient,
		"--metrics-tls-cert-file", serving.certificate, "--metrics-tls-key-file", serving.key)
	// The last value of a flag counts.
	extender.arguments = append(extender.arguments, "--metrics-bind-address", fmt.Sprint("0.0.0.0:", extender.metricsPort))
	extender.start(t)
	client := httpsClient(t, authority, nil)
	get := func(path, token string) (int, string, error) {
		return getWithToken(t, client, extender.metricsPort, path, token)
	}
	waitFor(t, 60*time.Second, "the probe to succeed without a token", func() (bool, string) {
		status, body, err := get("/readyz", "")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
	})
	bindReaderRole(ctx, t, "mgpu-metrics-reader", metricsUser)
	// The authorizer of the API server learns of the binding from a watch, and mgpu keeps a result for 10 s.
	waitFor(t, 60*time.Second, "the reader of metrics to have its right", func() (bool, string) {
		status, body, err := get("/metrics", metricsToken)
		return err == nil && status == http.StatusOK, fmt.Sprintf("%d %.200s %v", status, body, err)
	})
	for _, one := range []struct {
		path, token string
		status      int
	}{
		{"/livez", "", 200}, {"/metrics", "", 401}, {"/metrics", "no-such-token", 401}, {"/metrics", nobodyToken, 403},
		{"/metrics", adminToken, 200}, {"/inspect/cluster", "", 401}, {"/inspect/cluster", metricsToken, 403},
		{"/inspect/cluster", extenderToken, 403}, {"/inspect/cluster", adminToken, 200}, {"/version", "", 401},
	} {
		if status, body, err := get(one.path, one.token); err != nil || status != one.status {
			t.Errorf("%s with token %q: %d %.200s %v, want %d", one.path, one.token, status, body, err, one.status)
		}
	}
	bindReaderRole(ctx, t, "mgpu-inspection-reader", inspectionUser)
	waitFor(t, 60*time.Second, "the reader of inspection to have its right", func() (bool, string) {
		status, body, err := get("/inspect/cluster", inspectionToken)
		return err == nil && status == http.StatusOK, fmt.Sprintf("%d %.200s %v", status, body, err)
	})
	if status, body, err := get("/metrics", inspectionToken); err != nil || status != http.StatusForbidden {
		t.Errorf("/metrics for the reader of inspection: %d %.200s %v, want 403", status, body, err)
	}
	log, err := os.ReadFile(extender.logPath)
	if err != nil || strings.Contains(string(log), metricsToken) || strings.Contains(string(log), "no-such-token") {
		t.Errorf("the log contains a token, or cannot be read: %v", err)
	}
}

// getWithToken gets the path by TLS. Without a token the request has no credentials.
func getWithToken(t *testing.T, client *http.Client, port int, path, token string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return read(client.Do(request))
}

// bindReaderRole binds a ClusterRole of deploy/manifests to a user, as deploy/EXTENDER.md says.
func bindReaderRole(ctx context.Context, t *testing.T, role, user string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: role + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	binding, err := plane.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plane.admin.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})
	})
}

func issue(t testing.TB, authority *Authority, name string, dnsNames ...string) KeyPair {
	t.Helper()
	pair, err := authority.issue(name, dnsNames...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func withClient(extender *Extender, client *http.Client) *Extender {
	other := *extender
	other.client = client
	return &other
}

func TestBadInputGetsAClearErrorAndChangesNothing(t *testing.T) {
	world := newWorld(t, 1)
	create(world.ctx, t, world.pod("bound").share(30, 1024))
	bound := waitBound(world.ctx, t, world.namespace, "bound")
	binding := fmt.Sprintf(`{"PodName":%q,"PodNamespace":%q,"PodUID":%q,"Node":"%%s"}`,
		bound.Name, bound.Namespace, bound.UID)
	for name, one := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"empty body":             {"/mgpu/filter", "", 400, ""},
		"not JSON":               {"/mgpu/filter", "{", 400, ""},
		"array for an object":    {"/mgpu/filter", "[]", 400, ""},
		"no pod":                 {"/mgpu/filter", `{"NodeNames":["gpu-00"]}`, 400, "Pod"},
		"deep nesting":           {"/mgpu/filter", strings.Repeat("[", 1_000_000), 400, ""},
		"prioritize without pod": {"/mgpu/prioritize", "{}", 400, ""},
		"preempt not JSON":       {"/mgpu/preempt", "nonsense", 400, ""},
		"bind without node":      {"/mgpu/bind", fmt.Sprintf(binding, ""), 400, "Node"},
		"bind to another node":   {"/mgpu/bind", fmt.Sprintf(binding, "gpu-77"), 200, "Error"},
		"bind of another uid": {"/mgpu/bind", `{"PodName":"bound","PodNamespace":"` + world.namespace +
			`","PodUID":"no-such-uid","Node":"gpu-00"}`, 200, "Error"},
		"bind of no pod": {"/mgpu/bind",
			`{"PodName":"none","PodNamespace":"default","PodUID":"u","Node":"gpu-00"}`, 200, "Error"},
		"unknown path": {"/mgpu/nothing", "{}", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := world.extender.post(one.path, strings.NewReader(one.body))
			if err != nil {
				t.Fatal(err)
			}
			if status != one.status || !strings.Contains(body, one.want) || body == "" {
				t.Errorf("%d %.300s, want %d with %q", status, body, one.status, one.want)
			}
		})
	}
	if status, _, err := world.extender.getVerb("/mgpu/filter"); err != nil || status != http.StatusMethodNotAllowed {
		t.Errorf("GET filter: %d %v, want 405", status, err)
	}
	after := get(world.ctx, t, world.namespace, "bound")
	if after.ResourceVersion != bound.ResourceVersion {
		t.Errorf("the bound pod was changed: %v", after.Annotations)
	}
	world.history.check(world.ctx, t)
}

func TestABodyOverTheLimitIsRejected(t *testing.T) {
	extender := plane.startExtender(t)
	body := bytes.NewReader(append([]byte(`{"Pod":"`), bytes.Repeat([]byte("x"), 5<<20)...))
	status, answer, err := extender.post("/mgpu/filter", body)
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.200s, want 413", status, answer)
	}
}

func filterBody(t *testing.T, pod any, nodes []string) *bytes.Reader {
	t.Helper()
	body, err := json.Marshal(map[string]any{"Pod": pod, "Nodes": nil, "NodeNames": nodes})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(body)
}

type filterAnswer struct {
	NodeNames                               []string
	FailedNodes, FailedAndUnresolvableNodes map[string]string
	Error                                   string
}

func filter(t *testing.T, extender *Extender, pod any, nodes []string) filterAnswer {
	t.Helper()
	status, text, err := extender.post("/mgpu/filter", filterBody(t, pod, nodes))
	if err != nil || status != http.StatusOK {
		t.Fatalf("filter: %d %.300s %v", status, text, err)
	}
	var answer filterAnswer
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestFilterAnswersFor20000Nodes(t *testing.T) {
	world := newWorld(t, 1)
	names := []string{"gpu-00"}
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("unknown-node-with-a-rather-long-name-%05d", i))
	}
	pod := world.pod("some").share(10, 1024).build()
	answer := filter(t, world.extender, pod, names)
	if !slices.Equal(answer.NodeNames, names[:1]) || answer.Error != "" {
		t.Errorf("%v fit, error %q; want gpu-00", answer.NodeNames, answer.Error)
	}
	answer = filter(t, world.extender, pod, names[1:])
	refused := len(answer.FailedNodes) + len(answer.FailedAndUnresolvableNodes)
	if len(answer.NodeNames) != 0 || refused != 20_000 || answer.Error != "" {
		t.Errorf("%d fit, %d rejected, error %q; want 20000 rejected", len(answer.NodeNames), refused, answer.Error)
	}
}

// The process of the API server is stopped, so it accepts connections and does not respond.
func TestFilterWorksAndBindFailsWithoutTheAPIServer(t *testing.T) {
	world := newWorld(t, 1)
	gated := world.pod("gated").share(10, 1024)
	gated.scheduler("nobody")
	pod := create(world.ctx, t, gated)
	if err := plane.apiServer.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() { _ = plane.apiServer.command.Process.Signal(syscall.SIGCONT) }
	t.Cleanup(resume)
	if answer := filter(t, world.extender, pod, world.nodes); len(answer.NodeNames) != 1 {
		t.Errorf("filter from memory: %+v, want the one node", answer)
	}
	begin := time.Now()
	body := fmt.Sprintf(`{"PodName":"gated","PodNamespace":%q,"PodUID":%q,"Node":"gpu-00"}`, pod.Namespace, pod.UID)
	status, text, err := world.extender.post("/mgpu/bind", strings.NewReader(body))
	var answer struct{ Error string }
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	if err != nil || status != http.StatusOK || answer.Error == "" {
		t.Errorf("bind: %d %s %v, want 200 with an Error", status, text, err)
	}
	t.Logf("bind returned after %v: %s", time.Since(begin).Round(time.Millisecond), answer.Error)
	resume()
	waitFor(t, time.Minute, "the API server to respond again", func() (bool, string) {
		_, err := list(world.ctx, world.namespace)
		return err == nil, fmt.Sprint(err)
	})
	create(world.ctx, t, world.pod("after").share(10, 1024))
	waitBound(world.ctx, t, world.namespace, "after")
	world.history.check(world.ctx, t)
}

func TestStartErrorsAreOneSentence(t *testing.T) {
	running := plane.startExtender(t)
	kubeconfig := plane.kubeconfig(extenderToken)
	for name, one := range map[string]struct {
		arguments []string
		want      string
	}{
		"unknown flag":       {[]string{"--no-such-flag"}, "no-such-flag"},
		"port not a number":  {[]string{"--port", "many"}, "port"},
		"port out of range":  {[]string{"--port", "70000"}, "port"},
		"missing kubeconfig": {[]string{"--kubeconfig", "/no/such/file"}, "/no/such/file"},
		"port in use": {[]string{"--kubeconfig", kubeconfig, "--metrics-bind-address", "127.0.0.1:0", "--port",
			fmt.Sprint(running.port)}, fmt.Sprint(running.port)},
		"port of metrics in use": {[]string{"--kubeconfig", kubeconfig, "--port", "0", "--metrics-bind-address",
			fmt.Sprint("127.0.0.1:", running.metricsPort)}, fmt.Sprint(running.metricsPort)},
		"missing certificate": {[]string{"--kubeconfig", kubeconfig, "--port", "0", "--metrics-bind-address", "127.0.0.1:0",
			"--tls-cert-file", "/no/such.crt", "--tls-key-file", "/no/such.key"}, "/no/such"},
		"verbs in the network": {[]string{"--kubeconfig", kubeconfig, "--listen-address", "0.0.0.0"},
			"requires --tls-secret, or --tls-client-ca-file and --tls-client-names, or --insecure-listen"},
	} {
		t.Run(name, func(t *testing.T) {
			checkStartError(t, extenderBinary(t), one.want, one.arguments...)
		})
	}
	if output, err := exec.Command(extenderBinary(t), "--help").CombinedOutput(); err != nil {
		t.Errorf("--help: %v %s", err, output)
	}
}

// checkStartError runs a program that must fail and not run on, with an explanation in its last line.
func checkStartError(t *testing.T, binary, want string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startsIn)
	defer cancel()
	output, err := exec.CommandContext(ctx, binary, arguments...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err == nil || ctx.Err() != nil {
		t.Fatalf("ended with %v and printed %q; want a failure", err, text)
	}
	if last := text[strings.LastIndexByte(text, '\n')+1:]; !strings.Contains(last, want) {
		t.Errorf("printed %q, want %q in its last line", text, want)
	}
}

// The number of skipped cases. Two cases compact etcd, and the history check of the other tests needs
// its whole history.
const conformanceSkippedMax = 2

// Runs the conformance tests of the in-memory API server with the real one.
func TestConformanceOfTheRealAPIServer(t *testing.T) {
	binary := built(t, "test/kube_conformance_test")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, binary, "--gtest_brief=1", "--gtest_filter=*/real")
	command.Env = append(os.Environ(), "MGPU_TEST_KUBECONFIG="+plane.kubeconfig(adminToken))
	output, err := command.CombinedOutput()
	text := strings.TrimSpace(string(output))
	skipped := strings.Count(text, ": Skipped\n")
	if err != nil || skipped > conformanceSkippedMax || !regexp.MustCompile(`\[  PASSED  \] [1-9]`).MatchString(text) {
		t.Fatalf("%v, %d skipped\n%s", err, skipped, text)
	}
	t.Log(text[max(0, len(text)-400):])
}
