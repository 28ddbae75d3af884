package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
)

// sample returns the plan of a node of 16 CPUs and 32Gi.
func sample(t *testing.T) Plan {
	t.Helper()
	p := Plan{
		Configuration: node.KubeletOrigin{Files: []string{"/var/lib/kubelet/config.yaml"}, KubeletPID: 812},
		Usage:         []Usage{{Slice: "kubepods.slice", MemoryBytes: 3 << 30, WorkingSetBytes: 2 << 30, PeakBytes: new(uint64(4 << 30))}, {Slice: "system.slice", MemoryBytes: 1 << 30, WorkingSetBytes: 700 << 20}},
	}
	in := nodeOf(t, "cpu=16,memory=32Gi,storage=100Gi")
	in.Partitions = node.BudgetPartitions([]config.Partition{{Name: "system", Thresholds: thresholds.Thresholds{Limit: 4 << 30}, CPUs: cpuset.New(3, 4)}}, nil)
	in.Partitions[0].Members = &budget.Members{Pods: 5, MemoryRequestBytes: 300 << 20, MemoryLimitBytes: 1 << 30, Unlimited: 2}
	var err error
	if p.Budget, err = budget.Compute(in); err != nil {
		t.Fatal(err)
	}
	return p
}

// nodeOf returns the node of a capacity, with reservations and without partitions.
func nodeOf(t *testing.T, capacity string) budget.Input {
	t.Helper()
	c := capacityOf(t, capacity)
	return budget.Input{
		Kubelet: budget.Kubelet{
			KubeReserved: map[string]string{"memory": "2Gi"}, SystemReserved: map[string]string{"memory": "3Gi"},
			ReservedSystemCPUs: "0-3", EvictionHard: map[string]string{"memory.available": "1Gi"},
		},
		Capacity: c.Resources, CPUs: c.CPUs,
	}
}

// TestWriteTablePartitions: each row and each warning says which partition it is about.
func TestWriteTablePartitions(t *testing.T) {
	t.Parallel()
	const want = `Left for user pods  0 of 32Gi, 11 of 16 CPUs
Configuration       /var/lib/kubelet/config.yaml, command line of process 812

BUDGET                   CPU  MEMORY  STORAGE
capacity                 16   32Gi    -
- kubeReserved           0    2Gi     -
- systemReserved         4    3Gi     -
- eviction threshold     0    1Gi     -
- huge pages             0    512Mi   -
= Node Allocatable       12   26Gi    -
- partition system       2    4Gi     -
- partition batch        0    16Gi    -
- partition node-agents  2    6Gi     -
= left for user pods     11   0       -
  not requested          -    9940Mi  -

PODS OF                COUNT  REQUESTS  LIMITS  WITHOUT A LIMIT
partition system       5      300Mi     1Gi     2
partition batch        40     17Gi      2Gi     39
partition node-agents  0      0         0       0

PARTITION  MEMORYLIMIT  OF    IS    BY
batch      50%          32Gi  16Gi  -

POOL                   CPUS      COUNT
partition system       0-1       2
partition batch        0-2,5-15  14
partition node-agents  3-4       2
reserved               0-3       4
shared                 5-15      11

SLICE                       MEMORY  WORKING SET  PEAK
kubepods-system.slice       100Mi   50Mi         -
kubepods-node_agents.slice  200Mi   60Mi         -

warning  workloadPartitions.batch.memoryLimit of 16Gi is below the requests of its 40 pods, 17Gi: pods are evicted that use no more than they request
warning  workloadPartitions.node-agents.cpuset: CPU 4 is not one of reservedSystemCPUs, 0-3: the scheduler promises it to user pods, which are kept off it; want a part of those
warning  systemPartition.memoryLimit, workloadPartitions.batch.memoryLimit, workloadPartitions.node-agents.memoryLimit: 26Gi leaves 0 of the node's 32Gi for user pods, with reservations and the eviction threshold: less than 10 %; want less
warning  kubeReserved and systemReserved, 5Gi of memory, do not include the partitions: the scheduler promises 9940Mi of their memoryLimit to user pods too; raise systemReserved by 4820Mi, or accept that user pods have less than promised
warning  a; b?[31m
`
	p := sample(t)
	p.Usage = []Usage{
		{Slice: "kubepods-system.slice", MemoryBytes: 100 << 20, WorkingSetBytes: 50 << 20},
		{Slice: "kubepods-node_agents.slice", MemoryBytes: 200 << 20, WorkingSetBytes: 60 << 20},
	}
	partitions := []config.Partition{
		{Name: "system", Thresholds: thresholds.Thresholds{Limit: 4 << 30}, CPUs: cpuset.New(0, 1)},
		{Name: "batch", Thresholds: thresholds.Thresholds{Limit: 16 << 30}, Share: &config.Share{Text: "50%", OfBytes: 32 << 30}},
		{Name: "node-agents", Thresholds: thresholds.Thresholds{Limit: 6 << 30}, CPUs: cpuset.New(3, 4), Exclusive: true},
	}
	in := nodeOf(t, "cpu=16,memory=32Gi")
	in.Partitions = node.BudgetPartitions(partitions, nil)
	in.Partitions[0].Members = p.Partitions[0].Members
	in.Partitions[1].Members = &budget.Members{
		Pods: 40, MemoryRequestBytes: 17 << 30, MemoryLimitBytes: 2 << 30, Unlimited: 39,
	}
	in.Partitions[2].Members = &budget.Members{}
	var err error
	if p.Budget, err = budget.Compute(in); err != nil {
		t.Fatal(err)
	}
	p.HugePagesBytes, p.Warnings = 512<<20, append(p.Warnings, "a\nb\x1b[31m")
	var out bytes.Buffer
	if err := WriteTable(&out, p); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
}

// TestWriteJSON: each amount has milliCPU and memoryBytes.
func TestWriteJSON(t *testing.T) {
	t.Parallel()
	var asJSON bytes.Buffer
	var got map[string]any
	if err := errors.Join(output.JSON(&asJSON, sample(t)), json.Unmarshal(asJSON.Bytes(), &got)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"capacity", "kubeReserved", "systemReserved", "evictionThreshold", "allocatable", "remainder"} {
		object, _ := got[name].(map[string]any)
		for _, field := range []string{"milliCPU", "memoryBytes"} {
			if _, ok := object[field].(float64); !ok {
				t.Errorf("%s.%s is missing:\n%s", name, field, &asJSON)
			}
		}
		if _, ok := object["storageBytes"]; !ok {
			t.Errorf("%s has no storageBytes", name)
		}
	}
	const members = `"members":{"pods":5,"memoryRequestBytes":314572800,"memoryLimitBytes":1073741824,"unlimited":2,"memoryUsedBytes":0}`
	for path, want := range map[string]string{
		"partitions": `[{"name":"system","slice":"kubepods-system.slice","milliCPU":2000,"memoryBytes":4294967296,"pool":{"cpus":"3-4","count":2},` +
			members + `}]`,
		"cpuPools": `{"reserved":{"cpus":"0-3","count":4},"shared":{"cpus":"5-15","count":11}}`,
	} {
		var expected any
		if err := json.Unmarshal([]byte(want), &expected); err != nil || !reflect.DeepEqual(got[path], expected) {
			t.Errorf("%s: %v, %v; want %s", path, err, got[path], want)
		}
	}
	for _, name := range []string{"cpuPools", "usage", "warnings", "configuration"} {
		if got[name] == nil {
			t.Errorf("%s is missing:\n%s", name, &asJSON)
		}
	}
	// A script reads an empty list.
	empty, err := budget.Compute(budget.Input{})
	if err != nil {
		t.Fatal(err)
	}
	asJSON.Reset()
	if err := output.JSON(&asJSON, Plan{Budget: empty}); err != nil || strings.Contains(asJSON.String(), `"warnings": null`) ||
		strings.Contains(asJSON.String(), `"partitions": null`) {
		t.Errorf("%v\n%s", err, &asJSON)
	}
}
