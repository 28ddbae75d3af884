package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodepartition/internal/node/options"
	"nodepartition/tests/fakenode"
)

// userOf returns a certificate of a user with its key.
func userOf(t *testing.T, name string) *clientcmdapi.AuthInfo {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &clientcmdapi.AuthInfo{
		ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// TestCheckNodeName: the kubelet's certificate names the Node, also where an administrator's
// kubeconfig is given.
func TestCheckNodeName(t *testing.T) {
	t.Parallel()
	n := typed(t)
	n.Cluster.Objects = lists("a", "default", "pods")
	admin := n.Cluster.NewKubeconfig(t)
	kubelets := n.Root + "/var/lib/kubelet/kubeconfig"
	config, err := clientcmd.LoadFromFile(kubelets)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["kubelet"] = userOf(t, "system:node:worker-2")
	config.Clusters["here"].Server = "https://127.0.0.1:1" // a certificate counts over TLS alone
	if err := clientcmd.WriteToFile(*config, kubelets); err != nil {
		t.Fatal(err)
	}
	expect(t, n, fails, []string{"error   workload-resource: " + coresA + ": the Node worker-2 has none of it"},
		func(o *options.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = admin })
}
