package generator

import (
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
)

// TestReservedAfterWaiting: the kubelet's configuration appears after a first run without it, in a
// mount or made by kubeadm join, and the section is broken. The kubelet gets its reserved slice,
// and the service whose own reload the second run is stays as it was.
func TestReservedAfterWaiting(t *testing.T) {
	const reserved = "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube.slice\n"
	for name, service := range map[string]string{
		"160-late-var-with-broken-section": "partition-generator-late.service",
		"02-no-configuration":              "partition-generator-await.service",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t, name)
			first := run(t, root)
			if first.Units[service] == "" || first.Units["kube.slice"] != "" {
				t.Fatalf("nothing waits for a configuration: %+v", first)
			}
			configure(t, root, badConfig+reserved)
			golden.Flush(t, root)
			got := run(t, root)
			if got.Status != 1 || got.Units["kube.slice"] == "" ||
				!strings.Contains(got.Units["kubelet.service.d/50-node-partition.conf"], "Wants=kube.slice") {
				t.Errorf("status %d, %s, %q; want kube.slice", got.Status, got.Messages, got.Units)
			}
			if got.Units[service] != first.Units[service] {
				t.Errorf("the service changes while it runs: %q", got.Units[service])
			}
		})
	}
}
