package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// The tests of this file show that a problem of the installation is named in the place where people look.
// TestChartRefusesWrongValues has the values of the chart, doctor_test.go what the doctor prints.

// People look at the pod that stays pending.
func TestAPendingPodNamesTheProblemWithACertificate(t *testing.T) {
	ctx := context.Background()
	authority, foreign := newAuthorityOf(t, "mgpu-extender-ca"), newAuthorityOf(t, "another-ca")
	const service = "mgpu-extender.kube-system.svc"
	expired := func(name string) KeyPair {
		pair, err := authority.issueUntil(time.Now().Add(-time.Minute), name, nil, service)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	serving, scheduler := issue(t, authority, "extender", service), issue(t, authority, "kube-scheduler")
	for name, one := range map[string]struct {
		serving, client KeyPair
		want            string
	}{
		"expired client": {serving, expired("expired-client"), "remote error: tls: expired certificate"},
		"foreign client": {serving, issue(t, foreign, "kube-scheduler"), "remote error: tls: unknown certificate authority"},
		"expired server": {expired("expired-server"), scheduler, "x509: certificate has expired or is not yet valid"},
		"foreign server": {issue(t, foreign, "extender", service), scheduler, "x509: certificate signed by unknown authority"},
		"other server":   {issue(t, authority, "other"), scheduler, "x509: certificate is valid for localhost, not " + service},
	} {
		t.Run(name, func(t *testing.T) {
			extender := plane.extenderOn(t, "https", httpsClient(t, authority, nil), "--tls-cert-file", one.serving.certificate,
				"--tls-key-file", one.serving.key, "--tls-client-ca-file", authority.file(), "--tls-client-names", "kube-scheduler")
			extender.start(t)
			extender.waitReady(t)
			namespace := newNamespace(ctx, t)
			plane.createNode(ctx, t, "gpu-certificates", 1)
			plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", extenderURL: extender.url(),
				tls: map[string]string{"caFile": authority.file(), "certFile": one.client.certificate, "keyFile": one.client.key}})
			create(ctx, t, newPod(namespace, "share").share(30, 1024))
			waitPending(ctx, t, namespace, "share", one.want)
		})
	}
}

func newAuthorityOf(t *testing.T, name string) *Authority {
	t.Helper()
	authority, err := newAuthority(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// People look at the probe and the log of a pod that does not get ready.
func TestAnExtenderWithoutRightsNamesThem(t *testing.T) {
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.follow(plane.kubeconfig(nobodyToken))
	extender.start(t)
	extender.waitSays(t, `User "nobody" cannot list resource "pods" in API group "" at the cluster scope`)
	extender.waitSays(t, `User "nobody" cannot list resource "nodes" in API group "" at the cluster scope`)
	if status, _, err := extender.get("/readyz"); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d %v, want 503", status, err)
	}
}

// waitSays waits until the log of the extender contains a sentence.
func (e *Extender) waitSays(t testing.TB, sentence string) {
	t.Helper()
	waitFor(t, time.Minute, "mgpu-extender to say "+sentence, func() (bool, string) {
		text, err := os.ReadFile(e.logPath)
		said := strings.ReplaceAll(string(text), `\`, "") // of quotes within quotes
		return err == nil && strings.Contains(said, sentence), said
	})
}

// kube-scheduler shows the status of an answer and not its text. The doctor names the holder
// (TestDoctorNamesAForeignHolderOfTheLease).
func TestAReplicaNamesTheLeaseThatSomebodyElseHolds(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	leases := plane.admin.CoordinationV1().Leases(namespace)
	holder, seconds, now := "somebody-else", int32(3600), metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "mgpu-extender"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	extender := plane.extenderOn(t, "http", http.DefaultClient, "--leader-elect", "--lease-namespace", namespace)
	extender.follow(plane.kubeconfig(adminToken)) // deploy/manifests is for the Lease in kube-system
	extender.start(t)
	extender.waitReady(t)
	extender.waitSays(t, `another process holds the lease" lease=`+namespace+`/mgpu-extender holder=somebody-else`)
	plane.createNode(ctx, t, "gpu-lease", 1)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	create(ctx, t, newPod(namespace, "share").share(30, 1024))
	waitPending(ctx, t, namespace, "share", "code 503")
	status, answer, err := extender.post("/mgpu/filter", strings.NewReader("{}"))
	if want := "this replica does not hold the lease " + namespace + "/mgpu-extender"; err != nil || !strings.Contains(answer, want) {
		t.Errorf("filter answers %d %s %v, want %q", status, answer, err, want)
	}
}

// oldAPIServer is a proxy of the API server that removes the precondition of a binding, as API servers before
// 1.25.9, 1.26.4 and 1.27.0 do.
func oldAPIServer(t *testing.T) http.Handler {
	proxy := plane.reverseProxy(t)
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/binding") {
			if err := removePrecondition(request); err != nil {
				http.Error(writer, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		proxy.ServeHTTP(writer, request)
	})
}

func removePrecondition(request *http.Request) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	var binding corev1.Binding
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &binding); err != nil {
		return fmt.Errorf("%q: %w", body, err)
	}
	binding.ResourceVersion = ""
	request.Header.Set("Content-Type", "application/json")
	if body, err = json.Marshal(binding); err != nil {
		return err
	}
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// helm refuses an old version at the installation (TestChartRefusesOldVersionsOfKubernetes). Without the chart,
// people look at the probe, and at the pod that is not bound.
func TestAnExtenderNamesAnOldAPIServer(t *testing.T) {
	ctx := context.Background()
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.follow(proxyKubeconfig(t, serveProxy(t, oldAPIServer(t)), extenderToken))
	extender.start(t)
	extender.waitReady(t)
	namespace := newNamespace(ctx, t)
	plane.createNode(ctx, t, "gpu-old", 1)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: extender.url()})
	create(ctx, t, newPod(namespace, "share").share(30, 1024))
	const want = "the API server ignores metadata.resourceVersion of a binding; Kubernetes 1.25.9, 1.26.4, 1.27 or later is required"
	waitPending(ctx, t, namespace, "share", want)
	if status, answer, err := extender.get("/readyz"); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(answer, want) {
		t.Errorf("/readyz answers %d %s %v, want 503 and %q", status, answer, err, want)
	}
}
