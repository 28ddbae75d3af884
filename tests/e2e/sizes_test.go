//go:build node

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"node-partition.io/node-partition/internal/command/plan"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/lab"
)

// oneForAll is one file for nodes of all sizes.
const oneForAll = dropinHead +
	"systemPartition: {memoryLimit: 12%, memoryLimitMin: 320Mi, memoryLimitMax: 896Mi, namespaces: [kube-system]}\n"

// TestSizes: one file on nodes of three sizes leads to three limits, which plan has said before.
func TestSizes(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		var limits []uint64
		for _, size := range []struct {
			mebi int
			// bound is the field that counts in place of the share. What is left of the memory after the
			// kernel has started is less than mebi, so 12 % are known only on the node.
			bound string
		}{
			{2048, "memoryLimitMin"},
			{4096, ""},
			{8192, "memoryLimitMax"},
		} {
			t.Run(fmt.Sprint(size.mebi), func(t *testing.T) {
				const file = "/root/one.yaml"
				n := lab.ForTest(t, lab.Options{
					Flavour: flavour, MemoryMiB: size.mebi,
					Files: append(programs(), lab.File{Path: file, Data: []byte(oneForAll)}),
				})
				var p plan.Plan
				if err := json.Unmarshal([]byte(run(t, n, monitorPath+" plan -o json --config="+file)), &p); err != nil {
					t.Fatal(err)
				}
				if len(p.Shares) != 1 || p.Shares[0].Bound != size.bound {
					t.Fatalf("planned %+v; want one share, bounded by %q", p.Shares, size.bound)
				}
				share := p.Shares[0]
				if total := capacity(t, n); fmt.Sprint(share.OfBytes) != total {
					t.Errorf("planned a share of %d bytes; the node has %s", share.OfBytes, total)
				}
				run(t, n, "cp "+file+" "+kubeletconfig.OverridePath)
				becomes(t, n, "cat "+systemCgroup+"/memory.max 2>/dev/null || true", strconv.FormatUint(share.MemoryLimitBytes, 10))
				limits = append(limits, share.MemoryLimitBytes)
			})
		}
		if len(limits) == 3 && (limits[0] != 320<<20 || limits[1] <= limits[0] || limits[2] != 896<<20 || limits[1] >= limits[2]) {
			t.Errorf("the limits are %d", limits)
		}
	})
}
