package cluster

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// HeldBinds is a proxy of the API server that keeps the binds of one pod and does not respond to them,
// like a proxy or an API server that is stopped. It forwards everything else.
type HeldBinds struct {
	url     string
	forward *httputil.ReverseProxy

	mutex sync.Mutex
	pod   string // binds of a pod of this name are kept
	held  []*http.Request
}

// startHeldBinds starts a proxy that runs until the end of the test.
func (c *ControlPlane) startHeldBinds(t testing.TB, pod string) *HeldBinds {
	t.Helper()
	binds := &HeldBinds{forward: c.reverseProxy(t), pod: pod}
	binds.url = serveProxy(t, binds)
	return binds
}

func (h *HeldBinds) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	dryRun := request.URL.Query().Get("dryRun") != ""
	if dryRun || !strings.HasSuffix(request.URL.Path, "/pods/"+h.pod+"/binding") {
		h.forward.ServeHTTP(response, request)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	kept := request.Clone(request.Context())
	kept.Body = io.NopCloser(bytes.NewReader(body))
	h.mutex.Lock()
	h.held = append(h.held, kept)
	h.mutex.Unlock()
	<-request.Context().Done()
}

func (h *HeldBinds) count() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.held)
}

// deliver sends the binds that were kept to the API server, and returns its responses.
func (c *ControlPlane) deliver(t testing.TB, binds *HeldBinds) (statuses []int, bodies []string) {
	t.Helper()
	binds.mutex.Lock()
	defer binds.mutex.Unlock()
	for _, kept := range binds.held {
		again, err := http.NewRequest(kept.Method, c.serverURL()+kept.URL.RequestURI(), kept.Body)
		if err != nil {
			t.Fatal(err)
		}
		again.Header = kept.Header
		answer, err := binds.forward.Transport.RoundTrip(again)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		statuses, bodies = append(statuses, answer.StatusCode), append(bodies, string(text))
	}
	return statuses, bodies
}
