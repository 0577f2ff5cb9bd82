package cluster

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Extender is the real mgpu-extender with its own ports and the rights of deploy/manifests.
type Extender struct {
	process     *Process
	binary      string
	arguments   []string
	logPath     string
	port        int
	scheme      string       // of the verbs
	client      *http.Client // of the verbs
	metricsPort int          // probes, metrics and inspection; plain HTTP
}

// startExtender starts an extender and waits until it is ready.
func (c *ControlPlane) startExtender(t testing.TB, flags ...string) *Extender {
	t.Helper()
	extender := c.extenderOn(t, "http", http.DefaultClient, flags...)
	extender.start(t)
	extender.waitReady(t)
	return extender
}

// extenderOn returns an extender that has not been started.
func (c *ControlPlane) extenderOn(t testing.TB, scheme string, client *http.Client, flags ...string) *Extender {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	metricsPort, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{
		"--kubeconfig", c.kubeconfig(extenderToken), "--port", fmt.Sprint(port),
		"--metrics-bind-address", fmt.Sprint("127.0.0.1:", metricsPort)}, flags...)
	extender := &Extender{binary: extenderBinary(t), arguments: arguments, port: port, scheme: scheme, client: client,
		metricsPort: metricsPort, logPath: filepath.Join(t.TempDir(), "mgpu-extender.log")}
	t.Cleanup(func() { extender.end(t) })
	return extender
}

// VerbCertificates are for the verbs of an extender that needs a client certificate.
type VerbCertificates struct {
	flags     []string          // of the extender
	client    *http.Client      // with the certificate of kube-scheduler
	scheduler map[string]string // members of tlsConfig
}

func newVerbCertificates(t testing.TB) VerbCertificates {
	t.Helper()
	authority, err := newAuthority(t.TempDir(), "mgpu-extender-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving := issue(t, authority, "extender", "mgpu-extender.kube-system.svc")
	scheduler := issue(t, authority, "kube-scheduler")
	return VerbCertificates{client: httpsClient(t, authority, &scheduler),
		flags: []string{"--tls-cert-file", serving.certificate, "--tls-key-file", serving.key,
			"--tls-client-ca-file", authority.file(), "--tls-client-names", "kube-scheduler"},
		scheduler: map[string]string{"caFile": authority.file(), "certFile": scheduler.certificate,
			"keyFile": scheduler.key}}
}

// extenderWithCertificates returns an extender that has not been started and needs a client certificate, and what
// kube-scheduler needs to call it.
func (c *ControlPlane) extenderWithCertificates(t *testing.T) (*Extender, SchedulerSetup) {
	t.Helper()
	certificates := newVerbCertificates(t)
	extender := c.extenderOn(t, "https", certificates.client,
		append([]string{"--listen-address", "0.0.0.0"}, certificates.flags...)...)
	return extender, SchedulerSetup{configuration: "kube-scheduler-tls.yaml", tls: certificates.scheduler}
}

// follow sets another kubeconfig. It must be called before start.
func (e *Extender) follow(kubeconfig string) {
	e.arguments[slices.Index(e.arguments, "--kubeconfig")+1] = kubeconfig
}

func (e *Extender) start(t testing.TB) {
	t.Helper()
	var err error
	if e.process, err = startProcess("mgpu-extender", e.logPath, e.binary, e.arguments...); err != nil {
		t.Fatal(err)
	}
}

// end stops the extender with SIGTERM, as Kubernetes does. The exit code shows crashes and reports of
// sanitizers.
func (e *Extender) end(t testing.TB) {
	if e.process == nil {
		return
	}
	if code, ended := e.process.Terminate(endsIn); !ended || code != 0 {
		t.Errorf("mgpu-extender ended with code %d after SIGTERM (in time: %v)", code, ended)
	}
	e.process.Kill()
	if t.Failed() {
		t.Logf("last lines of mgpu-extender:\n%s", e.process.logTail(25))
	}
}

// killAndRestart simulates a crash: it sends SIGKILL and starts a new process with the same port.
func (e *Extender) killAndRestart(t testing.TB) {
	t.Helper()
	e.process.Kill()
	e.start(t)
}

func (e *Extender) waitReady(t testing.TB) {
	t.Helper()
	waitFor(t, startsIn, "mgpu-extender to be ready", func() (bool, string) {
		if !e.process.running() {
			t.Fatalf("mgpu-extender ended:\n%s", e.process.logTail(10))
		}
		status, body, err := e.get("/readyz")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
	})
}

func (e *Extender) address(path string) string {
	return fmt.Sprintf("%s://127.0.0.1:%d%s", e.scheme, e.port, path)
}

// url returns the URL prefix of the verbs.
func (e *Extender) url() string { return e.address("/mgpu") }

// get reads a path of probes, metrics and inspection.
func (e *Extender) get(path string) (int, string, error) {
	return read(http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", e.metricsPort, path)))
}

// getVerb sends GET to the listener of the verbs.
func (e *Extender) getVerb(path string) (int, string, error) {
	return read(e.client.Get(e.address(path)))
}

// read returns the status and the body of a response.
func read(answer *http.Response, err error) (int, string, error) {
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

func (e *Extender) post(path string, body io.Reader) (int, string, error) {
	return read(e.client.Post(e.address(path), "application/json", body))
}

// httpsClient returns a client that trusts the authority and has the certificate, if there is one.
func httpsClient(t testing.TB, authority *Authority, shown *KeyPair) *http.Client {
	t.Helper()
	configuration := &tls.Config{RootCAs: authority.pool()}
	if shown != nil {
		pair, err := tls.LoadX509KeyPair(shown.certificate, shown.key)
		if err != nil {
			t.Fatal(err)
		}
		configuration.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: configuration}, Timeout: 10 * time.Second}
}

// waitNodes waits until the extender has this number of nodes.
func (e *Extender) waitNodes(t testing.TB, count int) {
	t.Helper()
	waitFor(t, 2*time.Minute, fmt.Sprintf("mgpu-extender to see %d nodes", count), func() (bool, string) {
		status, body, err := e.get("/inspect/cluster")
		if err != nil || status != http.StatusOK {
			return false, fmt.Sprint(status, " ", body, " ", err)
		}
		var view struct{ Totals struct{ Nodes int } } // the list of nodes has pages
		if err := json.Unmarshal([]byte(body), &view); err != nil {
			return false, err.Error()
		}
		return view.Totals.Nodes == count, fmt.Sprint(view.Totals.Nodes, " nodes")
	})
}
