package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRights: the file with which the chart compares its roles has the rights of the table, and no
// other.
func TestRights(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../deploy/chart/charttest/rights.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
		if !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	rights := Rights(Place{Namespace: "n", LockNamespace: "kube-system", ConfigMap: "node-partition"})
	got := make([]string, 0, len(rights))
	for _, r := range rights {
		words := []string{string(r.Scope), r.Verb, strings.TrimSuffix(r.Resource+"."+r.Group, ".")}
		if r.Name != "" {
			words = append(words, r.Name)
		}
		got = append(got, strings.Join(words, " "))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("rights:\n%s\nthe file has:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
