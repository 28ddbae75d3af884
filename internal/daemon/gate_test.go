package daemon

import (
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestRunKubeletGate: the service ends by itself if the running kubelet makes the partition.
func TestRunKubeletGate(t *testing.T) {
	t.Parallel()
	for name, test := range fakenode.Gates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, fakenode.Valid("kube-system")+test.File)
			n.Partition("67108864")
			n.Serve(&fakenode.Runtime{})
			n.RunKubelet(test.Flags...)
			// A service that does not end by itself ends for its address, which has no port.
			said, err := n.runAt("localhost")
			if ends := err == nil && strings.Contains(said, "leaving it alone"); ends != test.Yields {
				t.Errorf("%v, %q; want that it ends by itself: %t", err, said, test.Yields)
			}
		})
	}
}
