package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	kueueNamespace = "kueue-system"
	kueueService   = "kueue-webhook-service"
	kueueSecret    = "kueue-webhook-server-cert"
)

// The definitions that Kueue's kustomization gives a webhook for conversion. The controller writes the authority of
// its certificate into them.
var kueueConverts = []string{"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}

// Kueue is Kueue's controller with its webhooks.
type Kueue struct {
	*KueueAPI
	folder  string // with its configuration and its certificate
	port    int    // of its webhooks
	process *Process
}

// startKueue starts the controller with all definitions of Kueue and the objects of deploy/examples.
func startKueue(t *testing.T, namespace string) *Kueue {
	t.Helper()
	if os.Getenv("MGPU_KUEUE_BINARY") == "" {
		t.Skip("MGPU_KUEUE_BINARY is not set; test/run.sh kueue sets it")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	kueue := &Kueue{folder: t.TempDir(), port: port}
	kueue.createService(t)
	kueue.KueueAPI = newKueueAPI(t, namespace, func(definition *unstructured.Unstructured) {
		name, _, _ := strings.Cut(definition.GetName(), ".")
		if !slices.Contains(kueueConverts, name) {
			return
		}
		client := map[string]any{"service": map[string]any{"path": "/convert"}}
		kueue.direct(client)
		definition.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook",
			"webhook": map[string]any{"clientConfig": client, "conversionReviewVersions": []any{"v1"}}}
	}, "admissionchecks", "clusterqueues", "cohorts", "localqueues", "multikueueclusters", "multikueueconfigs",
		"provisioningrequestconfigs", "resourceflavors", "topologies", "workloadpriorityclasses", "workloads")
	kueue.start(t, "")
	t.Cleanup(func() {
		kueue.process.Kill()
		if t.Failed() {
			t.Logf("last lines of kueue:\n%s", kueue.process.logTail(25))
		}
	})
	kueue.createWebhooks(t)
	kueue.mountCertificate(t)
	kueue.waitWebhooks(t)
	for _, object := range readObjects(t, deployExample(t, "kueue.yaml")) {
		if err := kueue.create(object); err != nil {
			t.Fatalf("%s: %v", nameOf(object), err)
		}
	}
	return kueue
}

// start starts the controller with more lines of its configuration.
func (k *Kueue) start(t *testing.T, more string) {
	t.Helper()
	file := filepath.Join(k.folder, "config.yaml")
	configuration := fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: %s
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
leaderElection: {leaderElect: false}
featureGates: {VisibilityOnDemand: false}
integrations: {frameworks: [pod]}
%s`, kueueNamespace, k.port, k.folder, more)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	k.process, err = startProcess("kueue", filepath.Join(k.folder, "kueue.log"), os.Getenv("MGPU_KUEUE_BINARY"),
		"--kubeconfig", plane.kubeconfig(adminToken), "--config", file)
	if err != nil {
		t.Fatal(err)
	}
}

// createService lets the API server find the webhooks on this machine by the name in their certificate, and
// creates the Secret of the certificate.
func (k *Kueue) createService(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	if err := plane.createNamespace(ctx, kueueNamespace); err != nil {
		t.Fatal(err)
	}
	_, err := plane.admin.CoreV1().Services(kueueNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: kueueService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.admin.CoreV1().Secrets(kueueNamespace).Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: kueueSecret}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// direct changes the reference to a Service as Kueue's kustomization does, and adds the port.
func (k *Kueue) direct(client map[string]any) {
	service := client["service"].(map[string]any)
	service["namespace"], service["name"], service["port"] = kueueNamespace, kueueService, int64(k.port)
}

// createWebhooks creates Kueue's webhooks, and deletes them at the end of the test, because without the controller no
// pod can be created.
func (k *Kueue) createWebhooks(t *testing.T) {
	t.Helper()
	for _, object := range kueueObjects(t, "webhook", "manifests.yaml") {
		object.SetName("kueue-" + object.GetName())
		for _, webhook := range object.Object["webhooks"].([]any) {
			k.direct(webhook.(map[string]any)["clientConfig"].(map[string]any))
		}
		resource := k.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: strings.ToLower(object.GetKind()) + "s"})
		if _, err := resource.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		name := object.GetName()
		t.Cleanup(func() { _ = resource.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
}

// mountCertificate writes the certificate that the controller has made to its folder, as kubelet does.
func (k *Kueue) mountCertificate(t *testing.T) {
	t.Helper()
	waitFor(t, time.Minute, "the certificate of Kueue", func() (bool, string) {
		if !k.process.running() {
			t.Fatalf("kueue ended:\n%s", k.process.logTail(10))
		}
		secret, err := plane.admin.CoreV1().Secrets(kueueNamespace).Get(context.Background(), kueueSecret, metav1.GetOptions{})
		if err != nil || len(secret.Data["tls.crt"]) == 0 {
			return false, fmt.Sprint(err)
		}
		for _, name := range []string{"tls.key", "tls.crt"} {
			if err := os.WriteFile(filepath.Join(k.folder, name), secret.Data[name], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return true, ""
	})
}

// waitWebhooks waits until the API server reaches the webhooks.
func (k *Kueue) waitWebhooks(t *testing.T) {
	t.Helper()
	pod := newPod(k.namespace, "tries-the-webhooks").share(1, 1024).build()
	waitFor(t, time.Minute, "the webhooks of Kueue", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(k.namespace).Create(context.Background(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, fmt.Sprint(err)
	})
}

// restart starts the controller again with more lines of its configuration.
func (k *Kueue) restart(t *testing.T, more string) {
	t.Helper()
	k.process.Kill()
	k.start(t, more)
	k.waitWebhooks(t)
}
