//go:build node

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	webFolder = "/etc/node-partition"
	webURL    = "https://node.example/metrics" // with the name in the certificate
	// webConfig has the monitor answer those with the certificate scraper.crt.
	webConfig = "tls_server_config:\n  cert_file: node.crt\n  key_file: node.key\n" +
		"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: scraper.crt\n"
	collector     = "/var/lib/prometheus/node-exporter" // which the unit may write
	collectorFile = collector + "/node_partition.prom"
	unwritten     = "metrics are not written for node_exporter, trying again.*"
)

// TestWeb: a monitor in the sandbox of its unit gives its metrics to a Prometheus elsewhere, over
// TLS and for a certificate, and to node_exporter in a file. What is broken about either is one
// line of the log, and pods are placed all the same.
func TestWeb(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		w := webNode{monitored(t, flavour, "256Mi")}
		t.Run("over TLS", w.overTLS)
		t.Run("in a file", w.inFile)
	})
}

// webNode is a node whose metrics are read.
type webNode struct{ *lab.Node }

// selfSigned makes a certificate that its own key has signed, and returns it as files, too.
func selfSigned(t *testing.T, name string) (tls.Certificate, []lab.File) {
	t.Helper()
	certificate, key := testkit.SelfSigned(t, &x509.Certificate{DNSNames: []string{"node.example"}, NotAfter: time.Now().Add(24 * time.Hour)})
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	path := webFolder + "/" + name
	return pair, []lab.File{
		{Path: path + ".crt", Data: certificate, Mode: 0o600},
		{Path: path + ".key", Data: key, Mode: 0o600},
	}
}

// configure writes files, and replaces the web configuration by a rename: the monitor may read it
// at any moment.
func (w webNode) configure(t *testing.T, text string, files ...lab.File) {
	t.Helper()
	const file = webFolder + "/web.yml"
	if err := w.CopyTo(t.Context(), append(files, lab.File{Path: file + ".new", Data: []byte(text), Mode: 0o600})...); err != nil {
		t.Fatal(err)
	}
	run(t, w.Node, "mv "+file+".new "+file)
}

// logged waits until the monitor has logged a message so many times.
func (w webNode) logged(t *testing.T, times int, message string) {
	t.Helper()
	becomes(t, w.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" | grep -c '"+message+"' || true", strconv.Itoa(times))
}

// overTLS: only a scrape with the certificate has an answer. While the file is broken, nothing is
// served, and a member is placed.
func (w webNode) overTLS(t *testing.T) {
	trusted := x509.NewCertPool()
	_, files := selfSigned(t, "node")
	trusted.AppendCertsFromPEM(files[0].Data)
	scraper, more := selfSigned(t, "scraper")
	stranger, _ := selfSigned(t, "stranger")
	address := run(t, w.Node, "ip -4 -o addr show scope global | sed -n '1s|.* inet \\([0-9.]*\\)/.*|\\1|p'") + ":9948"
	scrape := func(ctx context.Context, shown tls.Certificate) (bool, string, error) {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) { return w.Dial(ctx, network, address) }
		// Without this function a client keeps back a certificate that the server does not ask for.
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: dial,
			TLSClientConfig: &tls.Config{RootCAs: trusted, GetClientCertificate: show},
		}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, webURL, http.NoBody)
		if err != nil {
			return false, "", err
		}
		answer, err := client.Do(request)
		if err != nil {
			return false, "", err
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		return strings.Contains(string(page), "\nnodepartition_info{"), answer.Status, err
	}
	served := func(ctx context.Context) (bool, string, error) { return scrape(ctx, scraper) }

	w.configure(t, webConfig, append(files, more...)...)
	restartedWith(t, w.Node, "--listen=0.0.0.0:9948 --web.config.file="+webFolder+"/web.yml")
	eventually(t, w.Node, "a scrape with the certificate", served)
	for name, shown := range map[string]tls.Certificate{"no": {}, "a stranger's": stranger} {
		if _, status, err := scrape(t.Context(), shown); err == nil {
			t.Errorf("with %s certificate: %s", name, status)
		}
	}

	w.configure(t, strings.Replace(webConfig, "node.crt", "gone.crt", 1))
	becomes(t, w.Node, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9948' 2>&1 | grep -om 1 'Connection refused' || true", "Connection refused")
	const unserved = "metrics and health are not served"
	becomes(t, w.Node, "("+monitorPath+" check -v || true) | grep -c '"+unserved+": web configuration "+webFolder+"/web.yml: '", "1")
	apply(t, w.Node, spec{namespace: "kube-system", name: "meanwhile"})
	inSlice(t, w.Node, "kube-system", "meanwhile", partition.System, v1.PodQOSBestEffort)
	w.configure(t, webConfig)
	eventually(t, w.Node, "a scrape of the repaired monitor", served)
	w.logged(t, 1, unserved)
	w.logged(t, 1, "metrics and health are served again")
}

// inFile: node_exporter, which is another user, has our metrics, and no port is open. A folder that
// is gone or full is one line, and the former file stays whole.
func (w webNode) inFile(t *testing.T) {
	begin := func() {
		t.Helper()
		restartedWith(t, w.Node, "--listen= --textfile="+collector)
		becomes(t, w.Node, "grep -c '^nodepartition_info{' "+collectorFile+" || true", "1")
	}
	run(t, w.Node, "mkdir -p "+collector)
	begin()
	want(t, w.Node, "stat -c %a "+collectorFile, "644")
	want(t, w.Node, "ss -ltnH 'sport = :9948'", "")

	// systemd has given the monitor the folder of its start. Another one there needs another start.
	run(t, w.Node, "rm -r "+collector)
	w.logged(t, 1, unwritten+"no such file or directory")
	run(t, w.Node, "mkdir "+collector)
	w.logged(t, 1, unwritten+"read-only file system")
	w.logged(t, 2, unwritten)
	run(t, w.Node, "systemctl stop "+monitorUnit+" && mount -t tmpfs -o size=256k none "+collector)
	begin()

	run(t, w.Node, "dd if=/dev/zero of="+collector+"/fill bs=4k 2>/dev/null || true")
	w.logged(t, 1, unwritten+"no space left on device")
	const sum, touched = "sha256sum < " + collectorFile, "stat -c %y " + collector
	before := run(t, w.Node, sum)
	for range 3 { // an attempt makes a file in the folder, and removes it
		last := run(t, w.Node, touched)
		becomes(t, w.Node, "test \"$("+touched+")\" != '"+last+"' && echo tried || true", "tried")
	}
	becomes(t, w.Node, "ls -A "+collector, "fill\nnode_partition.prom")
	want(t, w.Node, sum, before)
	w.logged(t, 3, unwritten)
	run(t, w.Node, "rm "+collector+"/fill")
	w.logged(t, 1, "metrics are written for node_exporter again")
	becomes(t, w.Node, "ls -A "+collector, "node_partition.prom")
}
