package check

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

// userOf returns a certificate of a user with its key.
func userOf(t *testing.T, name string) *clientcmdapi.AuthInfo {
	t.Helper()
	certificate, key := testkit.SelfSigned(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}})
	return &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
}

// TestCheckNodeName: the kubelet's certificate names the Node, also where an administrator's
// kubeconfig is given.
func TestCheckNodeName(t *testing.T) {
	t.Parallel()
	n := typed(t)
	n.Cluster.Objects = map[string]string{"GET /api/v1/nodes/worker-2": `{"status":{}}`}
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
	expect(t, n, fails, []string{"error    workload-resource: " + coresA + ": the Node worker-2 has none of it"},
		func(o *node.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = admin })
}
