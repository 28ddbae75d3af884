package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// certificate writes a certificate for node1.example, NAME.crt, and its key, NAME.key. It returns a
// pool with the certificate.
func certificate(t *testing.T, folder, name string) *x509.CertPool {
	t.Helper()
	public, key := testkit.SelfSigned(t, &x509.Certificate{DNSNames: []string{"node1.example"}})
	write(t, filepath.Join(folder, name+".crt"), string(public))
	write(t, filepath.Join(folder, name+".key"), string(key))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	withTLS = "tls_server_config: {cert_file: node.crt, key_file: node.key}\n"
	// The password is "fakepassword".
	withUser = "basic_auth_users:\n  prometheus: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n"
)

// free returns an address that no process listens on.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// clientOf returns a client that connects to an address, whatever the host of a URL is.
func clientOf(address string, config *tls.Config) *http.Client {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DialContext: dial, DisableKeepAlives: true}}
}

// listening serves by a web configuration until the test ends, and returns the address.
func listening(t *testing.T, file string, handler http.Handler) string {
	t.Helper()
	changes, result := make(chan error, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	l := Listener{
		Address: free(t), Handler: handler, Config: file, Log: slog.New(slog.DiscardHandler),
		Changed: func(err error) { changes <- err },
	}
	go func() { result <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-result
	})
	if err := <-changes; err != nil {
		t.Fatal(err)
	}
	return l.Address
}

// TestWebConfig: metrics are served over TLS to those who have the password, by the name of the
// certificate. While the file is broken, at the start or later, nothing is served and the cause is
// known.
func TestWebConfig(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "web.yml")
	trusted := certificate(t, folder, "node")
	write(t, file, withTLS+"users: {}\n")
	changes := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	l := Listener{
		Address: free(t), Handler: Handler(Options{Alive: func() error { return nil }}),
		Config: file, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond,
		Changed: func(err error) {
			select {
			case changes <- err:
			case <-ctx.Done():
			}
		},
	}
	result := make(chan error, 1)
	go func() { result <- l.Run(ctx) }()
	defer func() {
		stop()
		<-result
	}()
	broken := func() {
		t.Helper()
		if err := <-changes; err == nil || !strings.Contains(err.Error(), "web configuration "+file) {
			t.Fatalf("%v, want an error with the file", err)
		}
		if conn, err := net.Dial("tcp", l.Address); err == nil {
			_ = conn.Close()
			t.Error("something is served with a broken file")
		}
	}
	served := func() {
		t.Helper()
		var err error
		for err = <-changes; err != nil; err = <-changes { // some attempts are before the change
		}
	}
	status := func(scheme, user, password string) int {
		t.Helper()
		client := clientOf(l.Address, &tls.Config{RootCAs: trusted})
		request, err := http.NewRequest(http.MethodGet, scheme+"://node1.example/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	broken()

	write(t, file, withTLS+withUser)
	served()
	for _, test := range []struct {
		scheme, user, password string
		want                   int
	}{
		{"https", "prometheus", "fakepassword", http.StatusOK},
		{"https", "prometheus", "wrong", http.StatusUnauthorized},
		{"https", "", "", http.StatusUnauthorized},
		{"http", "prometheus", "fakepassword", http.StatusBadRequest},
	} {
		if got := status(test.scheme, test.user, test.password); got != test.want {
			t.Errorf("%+v: status %d", test, got)
		}
	}
	write(t, file, withTLS+"basic_auth_users: {prometheus: plain}\n")
	broken()
	// Without TLS the name of the host is refused as ever.
	write(t, file, withUser)
	served()
	if got := status("http", "prometheus", "fakepassword"); got != http.StatusForbidden {
		t.Errorf("a name without TLS: status %d", got)
	}
}
