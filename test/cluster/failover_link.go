package cluster

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Gate is open, or cut as a network that delivers nothing. What was sent meanwhile arrives when it is mended.
type Gate struct {
	mutex   sync.Mutex
	changed sync.Cond
	isCut   bool
	closed  bool
}

func newGate() *Gate {
	gate := &Gate{}
	gate.changed.L = &gate.mutex
	return gate
}

func (g *Gate) set(cut, closed bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.isCut, g.closed = cut, g.closed || closed
	g.changed.Broadcast()
}

func (g *Gate) cut()   { g.set(true, false) }
func (g *Gate) mend()  { g.set(false, false) }
func (g *Gate) close() { g.set(false, true) }

// pass waits while the gate is cut. It returns false once the gate is closed.
func (g *Gate) pass() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for g.isCut && !g.closed {
		g.changed.Wait()
	}
	return !g.closed
}

// Link forwards TCP connections to an address that may change, each through a gate.
type Link struct {
	listener net.Listener
	// target returns the address of a new connection, and its gate. Without an address the connection is refused.
	target func() (address string, gate *Gate)
}

// startLink starts a link that runs until the end of the test.
func startLink(t testing.TB, target func() (string, *Gate)) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	link := &Link{listener: listener, target: target}
	t.Cleanup(func() { _ = listener.Close() })
	go link.serve()
	return link
}

func (l *Link) address() string { return l.listener.Addr().String() }

func (l *Link) serve() {
	for {
		client, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go l.forward(client.(*net.TCPConn))
		}
	}
}

func (l *Link) forward(client *net.TCPConn) {
	defer client.Close()
	address, gate := l.target()
	if address == "" || !gate.pass() {
		_ = client.SetLinger(0)
		return
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.SetLinger(0)
		return
	}
	defer connection.Close()
	server := connection.(*net.TCPConn)
	var group sync.WaitGroup
	group.Go(func() { gate.copy(server, client) })
	gate.copy(client, server)
	// A peer that has ended both directions answers nothing more.
	_ = client.Close()
	group.Wait()
}

// copy forwards one direction until its end. It reads ahead of a gate that is cut, as a kernel does.
func (g *Gate) copy(to, from *net.TCPConn) {
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		if !g.pass() {
			break
		}
		if count > 0 {
			if _, failed := to.Write(buffer[:count]); failed != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.CloseWrite()
			return
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}
