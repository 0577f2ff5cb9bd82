package cluster

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// LateWatches is a proxy of the API server that delays watch events of pods and nodes. It forwards everything else
// without a delay.
type LateWatches struct {
	url   string
	delay atomic.Int64 // time.Duration
}

// startLateWatches starts a proxy that runs until the end of the test.
func (c *ControlPlane) startLateWatches(t testing.TB, delay time.Duration) *LateWatches {
	t.Helper()
	late := &LateWatches{}
	late.delay.Store(int64(delay))
	proxy := c.reverseProxy(t)
	proxy.ModifyResponse = late.slow
	late.url = serveProxy(t, proxy)
	return late
}

// reverseProxy returns a proxy that forwards everything to the API server.
func (c *ControlPlane) reverseProxy(t testing.TB) *httputil.ReverseProxy {
	t.Helper()
	return c.reverseProxyTo(t, c.serverURL())
}

// reverseProxyTo is the same for another API server.
func (c *ControlPlane) reverseProxyTo(t testing.TB, address string) *httputil.ReverseProxy {
	t.Helper()
	server, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.authority.pool()}}
	proxy.FlushInterval = -1
	return proxy
}

// serveProxy serves the proxy until the end of the test and returns its URL.
func serveProxy(t testing.TB, proxy http.Handler) string {
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

func (l *LateWatches) slow(response *http.Response) error {
	url := response.Request.URL
	late := strings.HasSuffix(url.Path, "/pods") || strings.HasSuffix(url.Path, "/nodes")
	if late && url.Query().Get("watch") != "" {
		response.Body = newLateBody(response.Request.Context(), response.Body, &l.delay)
	}
	return nil
}

// kubeconfig writes a kubeconfig whose server is the proxy.
func (l *LateWatches) kubeconfig(t testing.TB, token string) string {
	t.Helper()
	return proxyKubeconfig(t, l.url, token)
}

// proxyKubeconfig writes a kubeconfig for a proxy.
func proxyKubeconfig(t testing.TB, server, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy.kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// lateBody delays each piece of a stream, until the client closes the connection.
type lateBody struct {
	client context.Context
	stream io.ReadCloser
	delay  *atomic.Int64
	pieces chan latePiece
	rest   []byte
}

type latePiece struct {
	bytes []byte
	err   error // the end; no bytes then
	due   time.Time
}

// The number of pieces of a watch within one delay is smaller than this.
const latePiecesMax = 4096

func newLateBody(client context.Context, stream io.ReadCloser, delay *atomic.Int64) *lateBody {
	body := &lateBody{client: client, stream: stream, delay: delay, pieces: make(chan latePiece, latePiecesMax)}
	go body.take()
	return body
}

func (b *lateBody) take() {
	for {
		buffer := make([]byte, 64<<10)
		count, err := b.stream.Read(buffer)
		due := time.Now().Add(time.Duration(b.delay.Load()))
		if count > 0 {
			b.put(latePiece{bytes: buffer[:count], due: due})
		}
		if err != nil {
			b.put(latePiece{err: err, due: due})
			return
		}
	}
}

func (b *lateBody) put(piece latePiece) {
	select {
	case b.pieces <- piece:
	case <-b.client.Done():
	}
}

func (b *lateBody) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		piece, err := b.next()
		if err != nil {
			return 0, err
		}
		b.rest = piece.bytes
	}
	count := copy(into, b.rest)
	b.rest = b.rest[count:]
	return count, nil
}

func (b *lateBody) next() (piece latePiece, err error) {
	select {
	case piece = <-b.pieces:
	case <-b.client.Done():
		return piece, b.client.Err()
	}
	select {
	case <-time.After(time.Until(piece.due)):
	case <-b.client.Done():
		return piece, b.client.Err()
	}
	return piece, piece.err
}

func (b *lateBody) Close() error { return b.stream.Close() }
