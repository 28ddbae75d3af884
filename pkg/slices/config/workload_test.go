package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/generator/golden"
)

// TestWorkloads: the fields of a type have their defaults, with and without a separate partition. A
// type without a cpuset has no resource.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	config, err := LoadWith(root, "mine.yaml", []byte(golden.KubeletHead+`
systemPartition: {namespaces: [kube-system], cpuset: "0-1"}
workloadPartitions:
  a: {namespaceAnnotation: true}
  b: {partition: system, allowedNamespaces: [ops], namespaceAnnotation: false, advertise: false}
  c: {partition: system, advertise: true}
  d: {advertise: null, cpuset: "2"}
  e: {advertise: true}
  f: {advertise: false, cpuset: "2"}
`))
	want := []partition.Workload{
		{Type: "a", Partition: "a", ByNamespace: true},
		{Type: "b", Partition: partition.System, Allowed: []string{"ops"}, CPUs: 2},
		{Type: "c", Partition: partition.System, Advertise: true, CPUs: 2},
		{Type: "d", Partition: "d", Advertise: true, CPUs: 1},
		{Type: "e", Partition: "e"},
		{Type: "f", Partition: "f", CPUs: 1},
	}
	if err != nil || !slices.EqualFunc(config.Workloads, want, partition.Workload.Equal) {
		t.Errorf("%+v, %v; want %+v", config.Workloads, err, want)
	}
	const nothing = "mine.yaml: workloadPartitions.e.advertise: does nothing without a cpuset"
	if !slices.ContainsFunc(config.Warnings, func(w string) bool { return strings.HasPrefix(w, nothing) }) {
		t.Errorf("%q; want %q", config.Warnings, nothing)
	}
}
