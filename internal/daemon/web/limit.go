package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxEach bounds the connections of each kind, and so memory and file descriptors: a TLS
	// connection takes some 50 kB. Prometheus needs one, and keeps it.
	maxEach = 100
	// maxOpen bounds them together with those that gave way, and whose requests have not ended yet.
	maxOpen = 5 * maxEach
	// sendBuffer bounds the memory that the kernel holds for a client that does not read, in bytes. It
	// would grow to 4 MiB (tcp_wmem).
	sendBuffer = 32 << 10
)

// limits bounds the connections of a server. Whoever may connect may open thousands. Of those
// that have not asked yet, and of those with their first request, the oldest gives way to the
// next. Those that have had an answer stay, and the next one is closed: so a client that keeps
// its connection, as Prometheus does, keeps it beside a flood. Strangers take no place of a
// client that has shown a password.
type limits struct {
	// places has an element for each connection until the server has closed it.
	places chan struct{}

	mu sync.Mutex
	// open holds the connections that have not given way, in the order of their last change.
	open []*connection
}

type connection struct {
	net.Conn
	// leave ends the connection and its request.
	leave func()
	// state stays http.StateIdle after the first answer.
	state http.ConnState
	// trusted means that a request on it had the password or the certificate that is asked for.
	trusted atomic.Bool
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

func newLimits() *limits { return &limits{places: make(chan struct{}, maxOpen)} }

// enter is the ConnContext of a server, which calls it before it accepts the next connection.
func (l *limits) enter(ctx context.Context, c net.Conn) context.Context {
	l.places <- struct{}{}
	below := c
	if secure, ok := c.(*tls.Conn); ok {
		below = secure.NetConn() // whose Close does not wait for the client
	}
	if tcp, ok := below.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // fails if the client is gone
	}
	ctx, cancel := context.WithCancel(ctx)
	entered := &connection{Conn: c, leave: func() { cancel(); _ = below.Close() }}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, entered)
	return context.WithValue(ctx, connectionKey{}, entered)
}

// changed is told each state of a connection.
func (l *limits) changed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed {
		<-l.places
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.open, func(o *connection) bool { return o.Conn == c })
	if i < 0 {
		return // it has given way
	}
	this := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	if state == http.StateClosed {
		this.leave()
		return
	}
	if this.state != http.StateIdle {
		this.state = state
	}
	//guard: a client that is known does not give way to strangers
	like := func(o *connection) bool { return o.state == this.state && o.trusted.Load() == this.trusted.Load() }
	alike := 0
	for _, o := range l.open {
		if like(o) {
			alike++
		}
	}
	l.open = append(l.open, this)
	//guard: readers that do not read give way
	if alike >= maxEach {
		victim := len(l.open) - 1
		//guard: a client that keeps its connection keeps it beside others
		if this.state != http.StateIdle {
			victim = slices.IndexFunc(l.open, like)
		}
		l.open[victim].leave() // the server notices, and closes it too
		l.open = slices.Delete(l.open, victim, victim+1)
	}
}

// trusting notes which connections get as far as the handler.
func trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(connectionKey{}).(*connection).trusted.Store(true)
		next.ServeHTTP(w, r)
	})
}

// inTurn has the passwords of strangers compared one at a time. They would all wait for one
// lock, in which a connection that is known would wait behind them, also behind those that are
// gone.
func inTurn(next http.Handler) http.Handler {
	//guard: the passwords of strangers are compared one at a time
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.Context().Value(connectionKey{}).(*connection).trusted.Load() {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			//guard: the password of a client that gave way is not compared
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
