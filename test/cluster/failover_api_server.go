package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// StoppedServer is a second API server of the same etcd, with a proxy before it. The first bind of one pod stops the
// server, and then lies in the receive buffer of its connection until the server runs again.
type StoppedServer struct {
	process *Process
	url     string // of the proxy
	forward *httputil.ReverseProxy
	pod     string
	onStop  func() // called before the server is stopped; may be nil
	dial    func() (*tls.Conn, error)

	mutex  sync.Mutex
	direct *tls.Conn // was connected before the server stopped
	held   bool
	late   []byte // the bind as it was sent
}

// startStoppedServer starts a server that stops at a bind of this pod, and runs until the end of the test.
func (c *ControlPlane) startStoppedServer(t testing.TB, pod string) *StoppedServer {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	server := &StoppedServer{pod: pod}
	if server.process, err = c.startAPIServerOn(port, "kube-apiserver-2"); err != nil {
		t.Fatal(err)
	}
	server.process.endWithTest(t)
	address := fmt.Sprint("127.0.0.1:", port)
	server.forward = c.reverseProxyTo(t, "https://"+address)
	client := http.Client{Transport: server.forward.Transport, Timeout: 5 * time.Second}
	waitFor(t, 2*time.Minute, "the second API server to be ready", func() (bool, string) {
		request, _ := http.NewRequest(http.MethodGet, "https://"+address+"/readyz", nil)
		request.Header.Set("Authorization", "Bearer "+adminToken)
		status, body, err := read(client.Do(request))
		return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
	})
	server.dial = func() (*tls.Conn, error) {
		return tls.Dial("tcp", address, &tls.Config{RootCAs: c.authority.pool()})
	}
	t.Cleanup(func() {
		if server.direct != nil {
			_ = server.direct.Close()
		}
	})
	server.url = serveProxy(t, server)
	return server
}

func (s *StoppedServer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	bind := strings.HasSuffix(request.URL.Path, "/pods/"+s.pod+"/binding") && request.URL.Query().Get("dryRun") == ""
	if !bind || !s.stopBefore(request) {
		s.forward.ServeHTTP(response, request)
		return
	}
	<-request.Context().Done()
}

// stopBefore stops the server and sends it the bind, unless it has done so before.
func (s *StoppedServer) stopBefore(request *http.Request) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.held {
		return false
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return false
	}
	sent := request.Clone(context.Background())
	sent.URL = &url.URL{Path: request.URL.Path, RawQuery: request.URL.RawQuery}
	sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	var text bytes.Buffer
	if err := sent.Write(&text); err != nil {
		return false
	}
	if s.direct, err = s.dial(); err != nil || s.getReady() != nil {
		return false
	}
	if s.onStop != nil {
		s.onStop()
	}
	if s.process.command.Process.Signal(syscall.SIGSTOP) != nil || !s.waitStopped() {
		return false
	}
	s.late = text.Bytes()
	_, err = s.direct.Write(s.late)
	s.held = err == nil
	return s.held
}

// getReady sends a first request. A server closes a connection without one after 32 seconds, which may be over when it
// goes on.
func (s *StoppedServer) getReady() error {
	request, err := http.NewRequest(http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	request.Host = "localhost"
	request.Header.Set("Authorization", "Bearer "+adminToken)
	if err := request.Write(s.direct); err != nil {
		return err
	}
	_, _, err = read(http.ReadResponse(bufio.NewReader(s.direct), nil))
	return err
}

// waitStopped waits until the kernel has stopped all threads of the server.
func (s *StoppedServer) waitStopped() bool {
	path := fmt.Sprintf("/proc/%d/stat", s.process.command.Process.Pid)
	return poll(time.Minute, "the API server to stop", func() (bool, string) {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), ") T "), string(text)
	}) == nil
}

func (s *StoppedServer) holds() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.held
}

// resume lets the server go on, and returns its response to the bind.
func (s *StoppedServer) resume(t testing.TB) (status int, body string) {
	t.Helper()
	if err := s.process.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = s.direct.SetReadDeadline(time.Now().Add(leaderTakesIn))
	response, err := http.ReadResponse(bufio.NewReader(s.direct), nil)
	status, body, err = read(response, err)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}
