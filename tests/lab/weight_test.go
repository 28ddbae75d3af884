//go:build node

package lab

import (
	"maps"
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

// TestNodeWeights: this is the reason for the flavour forky. Its runc and the kubelet write
// different weights for the same request.
func TestNodeWeights(t *testing.T) {
	t.Parallel()
	t.Run("forky", func(t *testing.T) {
		t.Parallel()
		n := ForTest(t, Options{Flavour: "forky", Restore: true})
		if _, err := n.ApplyPod(t.Context(), []byte(weighed)); err != nil {
			t.Fatal(err)
		}
		pod, err := n.WaitPod(t.Context(), "default", "weighed")
		if err != nil {
			t.Fatal(err)
		}
		tree, err := n.CgroupTree(t.Context(), "cpu.weight")
		if err != nil {
			t.Fatal(err)
		}
		_, container, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		weights := map[string]string{}
		for _, c := range tree {
			switch {
			case strings.HasSuffix(c.Path, container+".scope"):
				weights["container"] = c.Values["cpu.weight"]
			case strings.HasSuffix(c.Path, "-pod"+strings.ReplaceAll(string(pod.UID), "-", "_")+".slice"):
				weights["pod"] = c.Values["cpu.weight"]
			}
		}
		if want := map[string]string{"pod": "12", "container": "40"}; !maps.Equal(weights, want) {
			t.Errorf("300m have the weights %v, want %v", weights, want)
		}
	})
}
