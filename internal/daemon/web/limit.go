package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

const (
	// maxConnections bounds memory and file descriptors: a TLS connection takes some 50 kB. Prometheus
	// needs one, and keeps it.
	maxConnections = 256
	// maxClosing bounds the connections that gave way, and whose goroutines have not ended yet.
	maxClosing = 64
	// sendBuffer bounds the memory that the kernel holds for a client that does not read, in bytes. It
	// would grow to 4 MiB (tcp_wmem).
	sendBuffer = 32 << 10
)

// limited is a listener with few connections. Whoever may connect may open thousands, so that a
// full listener closes one for each new one: the one without a request for longest, of the source
// that has most. Connections that have shown a password go last. So a client that keeps its
// connection, or comes from elsewhere, is served beside a flood.
type limited struct {
	net.Listener
	// places has an element for each connection until the server has closed it.
	places chan struct{}
	closed chan struct{}
	close  func() error

	mu      sync.Mutex
	open    map[*connection]struct{}
	sources map[netip.Prefix]*peer
	turn    uint64
}

// peer names the client of connections.
type peer struct {
	prefix netip.Prefix
	open   int
	// computing is held while a connection makes the server compute for a stranger: for a handshake or
	// the hash of a password. Hundreds at once would take the CPU time of the loop that evicts.
	computing chan struct{}
}

func limit(l net.Listener) *limited {
	closed := make(chan struct{})
	return &limited{
		Listener: l, places: make(chan struct{}, maxConnections+maxClosing), closed: closed,
		close: sync.OnceValue(func() error {
			close(closed)
			return l.Close()
		}),
		open: map[*connection]struct{}{}, sources: map[netip.Prefix]*peer{},
	}
}

// Close implements net.Listener.
func (l *limited) Close() error { return l.close() }

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // fails if the client is gone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	prefix := sourceOf(accepted.RemoteAddr())
	from := l.sources[prefix]
	if from == nil {
		from = &peer{prefix: prefix, computing: make(chan struct{}, 1)}
		l.sources[prefix] = from
	}
	from.open++
	c := &connection{Conn: accepted, of: l, source: from, gone: make(chan struct{})}
	l.open[c] = struct{}{}
	l.turn++
	c.turn = l.turn
	if len(l.open) > maxConnections {
		victim := l.victim(c)
		l.remove(victim)
		_ = victim.Conn.Close() // the server notices, and closes it too
	}
	return c, nil
}

// victim returns the connection that gives way to a new one.
func (l *limited) victim(newest *connection) *connection {
	victim := newest
	for c := range l.open {
		trusted, open := c.trusted.Load(), c.source.open
		switch {
		case trusted != victim.trusted.Load():
			if !trusted {
				victim = c
			}
		case open > victim.source.open, open == victim.source.open && c.turn < victim.turn:
			victim = c
		}
	}
	return victim
}

// remove forgets a connection. The caller holds the lock.
func (l *limited) remove(c *connection) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	if c.source.open--; c.source.open == 0 {
		delete(l.sources, c.source.prefix)
	}
	close(c.gone)
}

// sourceOf returns the source of an address. Every account of the node has all loopback addresses,
// and a machine has all addresses of a prefix of IPv6.
func sourceOf(address net.Addr) netip.Prefix {
	from, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{} // a Unix socket
	}
	ip := from.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	switch {
	case ip.IsLoopback():
		return netip.PrefixFrom(netip.IPv6Loopback(), 128)
	case ip.Is6():
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// connection is a connection of a limited listener.
type connection struct {
	net.Conn
	of     *limited
	source *peer
	// turn orders connections by their last request. The lock of the listener guards it.
	turn uint64
	// trusted means that a request on it had the password or the certificate that is asked for.
	trusted atomic.Bool
	// asked means that it has had a request, and so is past the handshake.
	asked atomic.Bool
	// holds means that it holds computing of its source.
	holds atomic.Bool
	// gone is closed when the connection gave way or is closed.
	gone  chan struct{}
	leave sync.Once
}

// connectionOf returns the connection below TLS, or nil.
func connectionOf(c net.Conn) *connection {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	of, _ := c.(*connection)
	return of
}

// requested notes that the connection has a request.
func (c *connection) requested() {
	c.asked.Store(true)
	c.release()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.turn++
	c.turn = c.of.turn
}

// hold waits for the turn of the connection to have something computed. It reports false if the
// connection is gone.
func (c *connection) hold() bool {
	select {
	case c.source.computing <- struct{}{}:
		c.holds.Store(true)
	case <-c.gone:
		return false
	}
	select {
	case <-c.gone: // Close may have released before we had it
		c.release()
		return false
	default:
		return true
	}
}

func (c *connection) release() {
	if c.holds.CompareAndSwap(true, false) {
		<-c.source.computing
	}
}

// Read implements net.Conn. What a handshake has read is computed in turn.
func (c *connection) Read(p []byte) (int, error) {
	c.release()
	n, err := c.Conn.Read(p)
	if err == nil && !c.asked.Load() && !c.hold() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. It may wait for the client, and so lets others compute.
func (c *connection) Write(p []byte) (int, error) {
	c.release()
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave.Do(func() {
		c.of.mu.Lock()
		c.of.remove(c)
		c.of.mu.Unlock()
		c.release()
		<-c.of.places
	})
	return c.Conn.Close()
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connectionOf(c))
}

// trusting notes which connections get as far as the handler.
func trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c != nil {
			c.trusted.Store(true)
		}
		next.ServeHTTP(w, r)
	})
}

// inTurn handles one request of each source at a time, apart from those on trusted connections.
func inTurn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c != nil && !c.trusted.Load() {
			if !c.hold() {
				return
			}
			defer c.release()
		}
		next.ServeHTTP(w, r)
	})
}
