package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// ResourcesProxy is a proxy of kubelet's PodResources API. It delays or holds calls, or rejects them like
// kubelet at its rate limit.
type ResourcesProxy struct {
	socket    string
	delay     atomic.Int64                  // time.Duration
	held      atomic.Pointer[chan struct{}] // until it is closed
	exhausted atomic.Bool
	refused   atomic.Int64
	kubelet   *grpc.ClientConn
}

// rawCodec forwards messages as bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// podResources returns a client of kubelet's PodResources API, whose messages are bytes.
func (n *Node) podResources(t testing.TB) *grpc.ClientConn {
	t.Helper()
	client, err := grpc.NewClient("unix://"+n.podResourcesSocket(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// listsDevices returns whether kubelet's PodResources API lists devices of cards.
func (n *Node) listsDevices(t testing.TB) bool {
	t.Helper()
	client := n.podResources(t)
	defer client.Close()
	var request, answer []byte
	if err := client.Invoke(context.Background(), "/v1.PodResourcesLister/List", &request, &answer); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(answer), coreResource)
}

// startResourcesProxy starts a proxy that runs until the end of the test.
func startResourcesProxy(t testing.TB, node *Node) *ResourcesProxy {
	t.Helper()
	folder, err := os.MkdirTemp(node.folder, "proxy")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &ResourcesProxy{socket: folder + "/kubelet.sock"}
	proxy.kubelet = node.podResources(t)
	listener, err := net.Listen("unix", proxy.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(proxy.pass))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		_ = proxy.kubelet.Close()
	})
	return proxy
}

// pass forwards one unary call.
func (p *ResourcesProxy) pass(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request, answer []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if p.exhausted.Load() {
		p.refused.Add(1)
		return status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	if err := p.wait(stream.Context()); err != nil {
		return err
	}
	if err := p.kubelet.Invoke(stream.Context(), method, &request, &answer); err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}

// hold holds all calls until release is called.
func (p *ResourcesProxy) hold() (release func()) {
	held := make(chan struct{})
	p.held.Store(&held)
	return func() {
		p.held.Store(nil)
		close(held)
	}
}

func (p *ResourcesProxy) wait(ctx context.Context) error {
	if held := p.held.Load(); held != nil {
		select {
		case <-*held:
		case <-ctx.Done():
		}
	}
	select {
	case <-time.After(time.Duration(p.delay.Load())):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the caller did not wait: %w", ctx.Err())
	}
}
