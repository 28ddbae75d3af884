package node

import (
	"errors"
	"testing"

	"node-partition.io/node-partition/internal/host"
)

// TestOpenForeign: no credentials of another node are used here, however they are named: its
// kubeconfig may name a program.
func TestOpenForeign(t *testing.T) {
	t.Parallel()
	n, err := host.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, kubeconfig := range []string{KubeconfigAuto, "/etc/kubernetes/kubelet.conf"} {
		if _, _, err := OpenCluster(n, kubeconfig); !errors.Is(err, host.ErrNotQueried) {
			t.Errorf("%s: %v", kubeconfig, err)
		}
	}
}
