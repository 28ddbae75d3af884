package check

import (
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestCheckKubeletGate: a kubelet that makes the partition itself is left alone, whether its gate
// is set by a flag or in its configuration.
func TestCheckKubeletGate(t *testing.T) {
	t.Parallel()
	for name, test := range fakenode.Gates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := fakenode.New(t, fakenode.Valid("kube-system")+test.File)
			n.Partition("67108864")
			n.Serve(&fakenode.Runtime{})
			n.RunKubelet(test.Flags...)
			stdout, _ := text(t, n, nil)
			if yields := strings.Contains(stdout, "the kubelet makes the system partition itself"); yields != test.Yields {
				t.Errorf("yields: %t; want %t:\n%s", yields, test.Yields, stdout)
			}
		})
	}
}
