package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard answers only requests that are meant for this server, and forbids browsers to do more with
// the answers than to show them.
func guard(allowed hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", Policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		// With TLS the name in the header is one that our certificate has: a page from elsewhere cannot
		// have opened the connection under its own name.
		if r.TLS == nil && !allowed.include(r.Host) {
			http.Error(w, "The Host header is not an address that this server listens on. Use http://localhost with its port, "+
				"or have partition-monitor listen on that address.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hosts holds the values that a Host header may have. A web page from elsewhere can let its own
// name resolve to a loopback address, and then read the answers of this server (DNS rebinding). The
// header still has the page's name.
type hosts struct {
	names     []string
	addresses []netip.Addr
	// every allows all addresses, because a page cannot give an address another meaning.
	every bool
}

func newHosts(list []string) hosts {
	h := hosts{names: []string{"localhost"}}
	for _, host := range list {
		address, err := netip.ParseAddr(host)
		switch {
		case host == "", err == nil && address.IsUnspecified():
			h.every = true
		case err == nil:
			h.addresses = append(h.addresses, address.Unmap())
		default:
			h.names = append(h.names, strings.ToLower(host))
		}
	}
	return h
}

// include reports whether a Host header is allowed: a name or an address, perhaps with a port.
func (h hosts) include(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		address = address.Unmap()
		return address.IsLoopback() || h.every || slices.Contains(h.addresses, address)
	}
	return slices.Contains(h.names, strings.ToLower(strings.TrimSuffix(host, ".")))
}
