package daemon

import (
	"strings"
	"testing"

	"nodepartition/tests/fakenode"
)

// TestRunKubeletGate: the service ends by itself if the running kubelet makes the partition.
func TestRunKubeletGate(t *testing.T) {
	t.Parallel()
	const gates = "featureGates: {NodeSystemPartition: true}"
	for name, test := range map[string]struct {
		flags []string
		file  string
		ends  bool
	}{
		"none":                 {nil, "", false},
		"with =":               {[]string{"--feature-gates=NodeSystemPartition=true"}, "", true},
		"as the next argument": {[]string{"--v", "2", "--feature-gates", "A=true,NodeSystemPartition=true"}, "", true},
		// Its program cannot be read, which counts as one with the gate.
		"all that are alpha":                  {[]string{"--feature-gates=AllAlpha=true"}, "", true},
		"the file, which the generator reads": {[]string{"--feature-gates=NodeSystemPartition=false"}, gates, true},
		"another gate":                        {[]string{"--feature-gates=AllBeta=true"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, fakenode.Valid("kube-system")+test.file)
			n.Partition("67108864")
			n.Serve(&fakenode.Runtime{})
			n.RunKubelet(test.flags...)
			// A service that does not end by itself ends for its address, which has no port.
			said, err := n.runAt("localhost")
			if ends := err == nil && strings.Contains(said, "leaving it alone"); ends != test.ends {
				t.Errorf("%v, %q; want that it ends by itself: %t", err, said, test.ends)
			}
		})
	}
}
