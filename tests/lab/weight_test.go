//go:build node

package lab

import (
	"slices"
	"strings"
	"testing"
)

// weighed is a pod with one container of 300m.
const weighed = `apiVersion: v1
kind: Pod
metadata: {name: weighed, namespace: default}
spec:
  containers:
    - name: main
      image: lab.local/busybox:1
      imagePullPolicy: Never
      command: [sleep, "2147483647"]
      resources: {requests: {cpu: 300m}}
`

// TestNodeWeights: what forky is there for. Its runc and the kubelet write different weights for the same request.
func TestNodeWeights(t *testing.T) {
	t.Run("forky", func(t *testing.T) {
		n := ForTest(t, Options{Flavour: "forky", NoPods: true, Files: []File{{Path: ManifestDir + "/weighed.yaml", Data: []byte(weighed)}}})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		tree, err := n.CgroupTree(t.Context(), "cpu.weight")
		if err != nil {
			t.Fatal(err)
		}
		// The pod's sandbox, which requests nothing, has the least weight.
		var pods, containers []string
		for _, c := range tree {
			switch {
			case !strings.Contains(c.Path, "-pod"):
			case strings.HasSuffix(c.Path, ".scope"):
				containers = append(containers, c.Values["cpu.weight"])
			default:
				pods = append(pods, c.Values["cpu.weight"])
			}
		}
		slices.Sort(containers)
		if !slices.Equal(pods, []string{"12"}) || !slices.Equal(containers, []string{"1", "40"}) {
			t.Errorf("the pod's slice has %q, want 12; its containers have %q, want 1 and 40", pods, containers)
		}
	})
}
