package kubeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"node-partition.io/node-partition/tests/testkit"
)

// patience bounds waits for things that happen at once.
const patience = 20 * time.Second

// TestMain has certificates checked more often than every five minutes. It must not be changed
// while there are clients.
func TestMain(m *testing.M) {
	transport.CertCallbackRefreshDuration = 100 * time.Millisecond
	os.Exit(m.Run())
}

// writeCertificate writes a certificate with its key into one file, as the kubelet does
// (kubelet-client-current.pem).
func writeCertificate(t *testing.T, path, user string) {
	t.Helper()
	certificate, key := testkit.SelfSigned(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: user}, NotBefore: time.Now().Add(-time.Hour),
	})
	if err := os.WriteFile(path+".new", append(certificate, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// secureServer serves over TLS and HTTP/2, as an API server does, and asks for a certificate.
func secureServer(t *testing.T, handler http.Handler) (server *httptest.Server, authority []byte) {
	t.Helper()
	server = httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// The kubelet's certificate is replaced while we run, and the old one soon becomes invalid.
func TestClientCertificateRotates(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var user string
	api := newAPIServer(t, give(running()))
	server, authority := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		user = r.TLS.PeerCertificates[0].Subject.CommonName
		mu.Unlock()
		api.ServeHTTP(w, r)
	}))
	path := filepath.Join(t.TempDir(), "kubelet-client-current.pem")
	writeCertificate(t, path, "old")
	c := clientOf(t, writeKubeconfig(t, clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority},
		clientcmdapi.AuthInfo{ClientCertificate: path, ClientKey: path}))
	seen := func() string {
		if err := c.MarkEvicted(t.Context(), dns, now, low); err != nil {
			t.Log(err) // its connection was closed
			return ""
		}
		mu.Lock()
		defer mu.Unlock()
		return user
	}
	if got := seen(); got != "old" {
		t.Fatalf("user %q; want old", got)
	}
	writeCertificate(t, path, "new")
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return seen() == "new", nil })
	if err != nil {
		t.Errorf("the new certificate is not used: %v", err)
	}
}

// TestClientAuthorityReplaced: a node that joins another cluster has its authority at the same
// path. A client that is made then trusts the new one, while the old client is still there.
func TestClientAuthorityReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.crt")
	var clients [2]*Client
	for i, name := range []string{"first.test", "second.test"} {
		certificate, key := testkit.SelfSigned(t, &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, DNSNames: []string{"api.test"},
			NotBefore: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true,
		})
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(newAPIServer(t, give(running())))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		t.Cleanup(server.Close)
		if err := os.WriteFile(path, certificate, 0o600); err != nil {
			t.Fatal(err)
		}
		c := clientOf(t, writeKubeconfig(t,
			clientcmdapi.Cluster{Server: server.URL, TLSServerName: "api.test", CertificateAuthority: path}, clientcmdapi.AuthInfo{}))
		if err := c.MarkEvicted(t.Context(), dns, now, low); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		clients[i] = c
	}
	runtime.KeepAlive(clients)
}

// relay forwards connections until its open ones are frozen: they carry no data and do not end, as
// after a firewall has forgotten them.
type relay struct {
	net.Listener
	mu     sync.Mutex
	frozen []*atomic.Bool
}

type relayed struct {
	net.Conn
	frozen *atomic.Bool
	closed chan struct{}
	close  func()
}

func (r *relay) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	frozen, closed := &atomic.Bool{}, make(chan struct{})
	r.frozen = append(r.frozen, frozen)
	return &relayed{conn, frozen, closed, sync.OnceFunc(func() { close(closed) })}, nil
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, frozen := range r.frozen {
		frozen.Store(true)
	}
}

func (c *relayed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.frozen.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *relayed) Close() error {
	c.close()
	return c.Conn.Close()
}

// TestClientDeadConnection: an eviction, which has ten seconds, goes on over another connection
// when the one it has is dead, with what the unit sets.
func TestClientDeadConnection(t *testing.T) {
	unit, err := os.ReadFile("../../units/partition-monitor.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range regexp.MustCompile(`(HTTP2\w+)=(\d+)`).FindAllSubmatch(unit, -1) {
		t.Setenv(string(setting[1]), string(setting[2]))
	}
	api := newAPIServer(t, give(running()))
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	through := &relay{Listener: server.Listener}
	server.Listener = through
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := clientOf(t, writeKubeconfig(t, clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority}, clientcmdapi.AuthInfo{}))
	if err := c.MarkEvicted(t.Context(), dns, now, low); err != nil {
		t.Fatal(err)
	}
	through.freeze()
	wantError(t, c.MarkEvicted(t.Context(), dns, now, low), ErrUnreachable)
	if err = c.MarkEvicted(t.Context(), dns, now, low); err != nil {
		wantError(t, err, ErrUnreachable) // its health check was not over
		err = c.MarkEvicted(t.Context(), dns, now, low)
	}
	if err != nil {
		t.Errorf("the dead connection is used on: %v", err)
	}
}

// withPlugin returns a client whose credentials come from a shell script.
func withPlugin(t *testing.T, cluster clientcmdapi.Cluster, text string) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authenticator")
	testkit.WriteScript(t, path, text)
	return clientOf(t, writeKubeconfig(t, cluster, clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: path, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}))
}

func TestClientPlugin(t *testing.T) {
	t.Parallel()
	// Credentials are for TLS alone. No server listens there, and the plugin is called before any
	// connection.
	nobody := clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	const hint = "systemctl edit partition-monitor.service"
	t.Run("gives a token", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		var authorization string
		api := newAPIServer(t, give(running()))
		server, authority := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			authorization = r.Header.Get("Authorization")
			mu.Unlock()
			api.ServeHTTP(w, r)
		}))
		c := withPlugin(t, clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority},
			`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"secret"}}'`)
		if err := c.MarkEvicted(t.Context(), dns, now, low); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if authorization != "Bearer secret" {
			t.Errorf("authorization %q", authorization)
		}
	})
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		wantError(t, withPlugin(t, nobody, "exit 3").MarkEvicted(t.Context(), dns, now, low), ErrCredentials, "exit code 3", "authenticator", hint)
	})
	t.Run("is not there", func(t *testing.T) {
		t.Parallel()
		c := clientOf(t, writeKubeconfig(t, nobody, clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "no-such-authenticator", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}))
		wantError(t, c.Event(t.Context(), event()), ErrCredentials, "no-such-authenticator", hint)
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		c := withPlugin(t, nobody, "read line <"+fifo)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantError(t, c.MarkEvicted(ctx, dns, now, low), ErrUnreachable, "authenticator", hint)
		// The script ends with this, once it has started.
		release, err := os.OpenFile(fifo, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = release.Close() })
		if _, err := release.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
	})
}
