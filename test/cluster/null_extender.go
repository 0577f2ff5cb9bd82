package cluster

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// maxFilterBytes has room for the names of 5,000 nodes many times.
const maxFilterBytes = 8 << 20

// startNullExtender starts an extender in this process that answers filter with one of the nodes that it is asked about,
// in turn, and decides nothing. kube-scheduler binds the pods. It returns the setup of a kube-scheduler that uses it.
func startNullExtender(t *testing.T, certificates bool) SchedulerSetup {
	t.Helper()
	var next atomic.Uint64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(answer, request.Body, maxFilterBytes))
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(answer, `{"NodeNames":[%s]}`, oneName(body, next.Add(1)))
	}))
	t.Cleanup(server.Close)
	setup := SchedulerSetup{configuration: shippedSetup, filterOnly: true}
	if !certificates {
		server.Start()
		setup.extenderURL = server.URL
		return setup
	}
	authority, err := newAuthority(t.TempDir(), "null-extender-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving, scheduler := issue(t, authority, "null-extender", "mgpu-extender.kube-system.svc"), issue(t, authority, "client")
	pair, err := tls.LoadX509KeyPair(serving.certificate, serving.key)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.EnableHTTP2 = true
	server.StartTLS()
	setup.configuration, setup.extenderURL = "kube-scheduler-tls.yaml", server.URL
	setup.tls = map[string]string{"caFile": authority.file(), "certFile": scheduler.certificate, "keyFile": scheduler.key}
	return setup
}

// oneName returns one of the names in NodeNames, as JSON, or nothing where there are none.
func oneName(request []byte, number uint64) []byte {
	_, list, _ := bytes.Cut(request, []byte(`"NodeNames":[`))
	list, _, found := bytes.Cut(list, []byte("]"))
	if !found || len(list) == 0 {
		return nil
	}
	names := bytes.Split(list, []byte(","))
	return names[number%uint64(len(names))]
}
