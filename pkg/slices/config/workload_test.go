package config

import (
	"os"
	"slices"
	"testing"

	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
	"nodepartition/tests/generator/golden"
)

// TestWorkloads: the fields of a type have their defaults, with and without a separate partition.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	config, err := LoadWith(root, "mine.yaml", []byte(golden.KubeletHead+`
systemPartition: {namespaces: [kube-system]}
workloadPartitions:
  a: {}
  b: {partition: system, allowedNamespaces: [ops], namespaceAnnotation: false, advertise: false}
  c: {partition: system, advertise: true}
  d: {advertise: null}
`))
	want := []membership.Workload{
		{Type: "a", Partition: "a", ByNamespace: true, Advertise: true},
		{Type: "b", Partition: unitname.System, Allowed: []string{"ops"}},
		{Type: "c", Partition: unitname.System, ByNamespace: true, Advertise: true},
		{Type: "d", Partition: "d", ByNamespace: true, Advertise: true},
	}
	if err != nil || !slices.EqualFunc(config.Workloads, want, membership.Workload.Equal) {
		t.Errorf("%+v, %v; want %+v", config.Workloads, err, want)
	}
}
