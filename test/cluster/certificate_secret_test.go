package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	certificateSecret = "mgpu-extender-tls" // in deploy/manifests/mgpu.yaml
	serverDNSName     = "mgpu-extender.kube-system.svc"
	secondLease       = "mgpu-extender-second"
)

func secretFlags() []string {
	return []string{"--listen-address", "0.0.0.0", "--tls-secret", "kube-system/" + certificateSecret,
		"--tls-names", "127.0.0.1," + serverDNSName}
}

// Two extenders start at the same time with a Secret that has no data.
func TestTwoExtendersShareTheCertificatesOfASecret(t *testing.T) {
	ctx := context.Background()
	emptySecret(ctx, t)
	grantSecondLease(ctx, t)
	extenders := []*Extender{
		plane.extenderOn(t, "https", nil, secretFlags()...),
		plane.extenderOn(t, "https", nil, append(secretFlags(), "--lease-name", secondLease)...)}
	for _, extender := range extenders {
		extender.start(t)
	}
	for _, extender := range extenders {
		extender.waitReady(t)
	}
	data := readSecret(ctx, t)
	pair := secretFiles(t, data)
	for _, extender := range extenders {
		extender.client = secretClient(t, data, "client")
		checkServed(t, extender, data)
		if _, _, err := withClient(extender, secretClient(t, data, "")).getVerb("/mgpu/filter"); err == nil {
			t.Error("a client without a certificate got a response")
		}
		if _, _, err := withClient(extender, secretClient(t, data, "tls")).getVerb("/mgpu/filter"); err == nil {
			t.Error("the certificate of the server was accepted as that of a client")
		}
	}

	namespace := newNamespace(ctx, t)
	plane.createNodes(ctx, t, "gpu-", 2)
	extenders[0].waitNodes(t, 2)
	history := plane.beginHistory(ctx, t, namespace)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", extenderURL: extenders[0].url(),
		tls: map[string]string{"caFile": filepath.Join(filepath.Dir(pair.certificate), "ca.crt"),
			"certFile": pair.certificate, "keyFile": pair.key}})
	create(ctx, t, newPod(namespace, "before").share(30, 1024))
	waitBound(ctx, t, namespace, "before")

	changeSecret(ctx, t, `{"data":{"tls.crt":null,"tls.key":null}}`)
	waitFor(t, 3*time.Minute, "both extenders to serve a new certificate", func() (bool, string) {
		fresh := readSecret(ctx, t)
		return servedBy(t, extenders[0], fresh) && servedBy(t, extenders[1], fresh), ""
	})
	fresh := readSecret(ctx, t)
	for _, key := range []string{"ca.crt", "ca.key", "client.crt", "client.key"} {
		if string(fresh[key]) != string(data[key]) {
			t.Errorf("%s has changed, though only the server certificate was missing", key)
		}
	}
	if string(fresh["tls.crt"]) == string(data["tls.crt"]) {
		t.Error("the server certificate has not changed")
	}
	create(ctx, t, newPod(namespace, "after").share(30, 1024))
	waitBound(ctx, t, namespace, "after")
	history.check(ctx, t)
	for _, extender := range extenders {
		if log, err := os.ReadFile(extender.logPath); err != nil || strings.Contains(string(log), "PRIVATE") {
			t.Errorf("the log contains a key, or cannot be read: %v", err)
		}
	}
}

// kube-scheduler trusts the authority, so that the extender must not replace it.
func TestABrokenAuthorityIsReportedAndNotReplaced(t *testing.T) {
	ctx := context.Background()
	emptySecret(ctx, t)
	changeSecret(ctx, t, `{"data":{"ca.crt":"ZGFtYWdlZA==","ca.key":"ZGFtYWdlZA=="}}`)
	extender := plane.extenderOn(t, "https", http.DefaultClient, secretFlags()...)
	extender.start(t)
	waitFor(t, time.Minute, "the log to explain the Secret", func() (bool, string) {
		log, err := os.ReadFile(extender.logPath)
		return err == nil && strings.Contains(string(log), "ca.crt is not a PEM certificate: restore it"), fmt.Sprint(err)
	})
	status, body, err := extender.get("/readyz")
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, certificateSecret) {
		t.Errorf("/readyz: %d %s %v, want 503 with the name of the Secret", status, body, err)
	}
	if data := readSecret(ctx, t); string(data["ca.crt"]) != "damaged" || len(data) != 2 {
		t.Errorf("the Secret was changed: it has %d members", len(data))
	}
	changeSecret(ctx, t, `{"data":null}`)
	waitFor(t, 2*time.Minute, "the extender to make certificates", func() (bool, string) {
		status, body, err := extender.get("/readyz")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
	})
}

// The rights of deploy/manifests do not suffice to create a Secret; the log says what to do.
func TestAMissingCertificateSecretIsReported(t *testing.T) {
	ctx := context.Background()
	emptySecret(ctx, t)
	secrets := plane.admin.CoreV1().Secrets("kube-system")
	if err := secrets.Delete(ctx, certificateSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	extender := plane.extenderOn(t, "https", http.DefaultClient, secretFlags()...)
	extender.start(t)
	waitFor(t, time.Minute, "the log to say how to create the Secret", func() (bool, string) {
		log, err := os.ReadFile(extender.logPath)
		return err == nil && strings.Contains(string(log), "kubectl create secret generic"), fmt.Sprint(err)
	})
}

// deploy/OPERATIONS.md says that kube-scheduler reads a renewed client certificate without a restart.
func TestKubeSchedulerReadsARenewedClientCertificate(t *testing.T) {
	ctx := context.Background()
	authority, err := newAuthority(t.TempDir(), "mgpu-extender-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := issue(t, authority, "extender", serverDNSName)
	end := time.Now().Add(15 * time.Second)
	scheduler, err := authority.issueUntil(end, "kube-scheduler", nil)
	if err != nil {
		t.Fatal(err)
	}
	extender := plane.extenderOn(t, "https", nil,
		"--tls-cert-file", serving.certificate, "--tls-key-file", serving.key,
		"--tls-client-ca-file", authority.file(), "--tls-client-names", "kube-scheduler")
	extender.start(t)
	extender.waitReady(t)
	namespace := newNamespace(ctx, t)
	plane.createNodes(ctx, t, "gpu-", 1)
	extender.waitNodes(t, 1)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", extenderURL: extender.url(),
		tls: map[string]string{"caFile": authority.file(), "certFile": scheduler.certificate, "keyFile": scheduler.key}})
	time.Sleep(time.Until(end.Add(2 * time.Second)))
	create(ctx, t, newPod(namespace, "late").share(30, 1024))
	waitPending(ctx, t, namespace, "late", "SchedulerError")
	if _, err := authority.issue("kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	waitBound(ctx, t, namespace, "late")
}

// emptySecret removes the data of the Secret, now and when the test ends.
func emptySecret(ctx context.Context, t *testing.T) {
	t.Helper()
	empty := func() {
		secrets := plane.admin.CoreV1().Secrets("kube-system")
		fresh := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificateSecret}}
		if _, err := secrets.Create(ctx, fresh, metav1.CreateOptions{}); err == nil {
			return
		} else if !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
		changeSecret(ctx, t, `{"data":null}`)
	}
	empty()
	t.Cleanup(empty)
}

func changeSecret(ctx context.Context, t *testing.T, patch string) {
	t.Helper()
	_, err := plane.admin.CoreV1().Secrets("kube-system").Patch(ctx, certificateSecret, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

func readSecret(ctx context.Context, t *testing.T) map[string][]byte {
	t.Helper()
	secret, err := plane.admin.CoreV1().Secrets("kube-system").Get(ctx, certificateSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// secretFiles writes what kube-scheduler reads: ca.crt, client.crt and client.key in one folder.
func secretFiles(t *testing.T, data map[string][]byte) KeyPair {
	t.Helper()
	folder := t.TempDir()
	for _, key := range []string{"ca.crt", "client.crt", "client.key"} {
		if err := os.WriteFile(filepath.Join(folder, key), data[key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return KeyPair{filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")}
}

// secretClient trusts the authority of the Secret, and has the certificate `name` of it unless it is empty.
func secretClient(t *testing.T, data map[string][]byte, name string) *http.Client {
	t.Helper()
	configuration := &tls.Config{RootCAs: x509.NewCertPool()}
	if !configuration.RootCAs.AppendCertsFromPEM(data["ca.crt"]) {
		t.Fatal("the Secret has no ca.crt")
	}
	if name != "" {
		pair, err := tls.X509KeyPair(data[name+".crt"], data[name+".key"])
		if err != nil {
			t.Fatal(err)
		}
		configuration.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: configuration}, Timeout: 10 * time.Second}
}

// servedBy reports whether the extender uses the server certificate of the Secret for new connections.
func servedBy(t *testing.T, extender *Extender, data map[string][]byte) bool {
	t.Helper()
	if len(data["tls.crt"]) == 0 {
		return false
	}
	want, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	response, err := secretClient(t, data, "client").Get(extender.address("/mgpu/filter"))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return string(response.TLS.PeerCertificates[0].Raw) == string(want.Certificate[0])
}

func checkServed(t *testing.T, extender *Extender, data map[string][]byte) {
	t.Helper()
	if !servedBy(t, extender, data) {
		t.Errorf("the extender on port %d does not serve the certificate of the Secret", extender.port)
	}
	for _, certificate := range []string{"ca", "server", "client"} {
		end := extender.metrics(t).with("mgpu_extender_certificate_expiry_timestamp_seconds",
			fmt.Sprintf("certificate=%q", certificate))
		if end < float64(time.Now().Add(360*24*time.Hour).Unix()) {
			t.Errorf("the certificate %s ends at %v, want almost a year from now", certificate, end)
		}
	}
}

// grantSecondLease lets a second extender hold a Lease of its own, so that both decide.
func grantSecondLease(ctx context.Context, t *testing.T) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: secondLease}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
		ResourceNames: []string{secondLease}, Verbs: []string{"get", "update", "patch"}}}}
	if _, err := plane.admin.RbacV1().Roles("kube-system").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: secondLease},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: secondLease},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "mgpu-extender"}}}
	_, err := plane.admin.RbacV1().RoleBindings("kube-system").Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plane.admin.RbacV1().RoleBindings("kube-system").Delete(ctx, secondLease, metav1.DeleteOptions{})
		_ = plane.admin.RbacV1().Roles("kube-system").Delete(ctx, secondLease, metav1.DeleteOptions{})
	})
}
