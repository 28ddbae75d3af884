package nodepod

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestName: each node has a name of its own, which fits the host name of a pod. Nodes whose digests
// begin with the same 32 bits have different ones.
func TestName(t *testing.T) {
	t.Parallel()
	const prefix = "ip-10-0-0-1.eu-central-1.compute.internal-of-a-pool-"
	seen := map[[4]byte]string{}
	for i := 0; ; i++ {
		node := fmt.Sprintf("%s%d", prefix, i)
		digest := sha256.Sum256([]byte(node))
		short := [4]byte(digest[:4])
		if other, ok := seen[short]; ok {
			if Name(node) == Name(other) {
				t.Errorf("%s and %s have the pod %s", node, other, Name(node))
			}
			break
		}
		seen[short] = node
	}
	for _, node := range []string{"a", strings.Repeat("a.", 100) + "a", strings.Repeat("a", 29) + "-b"} {
		if problems := validation.IsDNS1123Label(Name(node)); len(problems) > 0 {
			t.Errorf("%s: %s: %v", node, Name(node), problems)
		}
	}
}
