package check

import (
	"strings"
	"testing"

	"nodepartition/tests/fakenode"
)

// TestCheckKubeletGate: a kubelet that makes the partition itself is left alone, whether its gate
// is set by a flag or in its configuration.
func TestCheckKubeletGate(t *testing.T) {
	t.Parallel()
	const gates = "featureGates: {NodeSystemPartition: true}"
	for name, test := range map[string]struct {
		flags  []string
		file   string
		yields bool
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
			n := fakenode.New(t, fakenode.Valid("kube-system")+test.file)
			n.Partition("67108864")
			n.Serve(&fakenode.Runtime{})
			n.RunKubelet(test.flags...)
			stdout, _ := text(t, n, nil)
			if yields := strings.Contains(stdout, "the kubelet makes the system partition itself"); yields != test.yields {
				t.Errorf("yields: %t; want %t:\n%s", yields, test.yields, stdout)
			}
		})
	}
}
