package plan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/budget"
	"nodepartition/internal/node/allocatable"
)

// sample returns the plan of a node of 16 CPUs and 32Gi.
func sample(t *testing.T) Plan {
	t.Helper()
	c, err := ParseCapacity("cpu=16,memory=32Gi,storage=100Gi")
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{
		Configuration: allocatable.Origin{Files: []string{"/var/lib/kubelet/config.yaml"}, KubeletPID: 812},
		Members:       &budget.Members{Pods: 5, MemoryRequestBytes: 300 << 20, MemoryLimitBytes: 1 << 30, Unlimited: 2},
		Usage:         []Usage{{Slice: "kubepods.slice", MemoryBytes: 3 << 30, WorkingSetBytes: 2 << 30, PeakBytes: new(uint64(4 << 30))}, {Slice: "system.slice", MemoryBytes: 1 << 30, WorkingSetBytes: 700 << 20}},
	}
	p.Budget, err = budget.Compute(budget.Input{
		Kubelet: budget.Kubelet{
			KubeReserved: map[string]string{"memory": "2Gi"}, SystemReserved: map[string]string{"memory": "3Gi"},
			ReservedSystemCPUs: "0-3", EvictionHard: map[string]string{"memory.available": "1Gi"},
		},
		Capacity: c.Resources, CPUs: c.CPUs,
		Partitions: []budget.Share{{Name: "system", MemoryLimit: 4 << 30, CPUs: cpuset.New(3, 4), Members: p.Members}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	const want = `Configuration  /var/lib/kubelet/config.yaml, command line of process 812

BUDGET                CPU  MEMORY  STORAGE
capacity              16   32Gi    100Gi
- kubeReserved        0    2Gi     0
- systemReserved      4    3Gi     0
- eviction threshold  0    1Gi     0
= Node Allocatable    12   26Gi    100Gi
- partition system    2    4Gi     -
= left for user pods  11   22Gi    100Gi

The 5 pods of the partition request 300Mi. Their limits are 1Gi; 2 have none.

POOL              CPUS  COUNT
partition system  3-4   2
reserved          0-3   4
shared            5-15  11

PROVIDER   RULE OF     RESERVES CPU  MEMORY  ALLOCATABLE CPU  MEMORY
this node  -           4             5Gi     12               26Gi
GKE        2026-07-20  110m          3645Mi  15890m           29022Mi
EKS        2026-07-23  110m          1465Mi  15890m           31203Mi
AKS        2024-04-16  260m          2250Mi  15740m           30418Mi
OpenShift  2026-05-14  500m          2Gi     15500m           30620Mi

SLICE           MEMORY  WORKING SET  PEAK
kubepods.slice  3072Mi  2048Mi       4096Mi
system.slice    1024Mi  700Mi        -

warning: systemPartition.cpuset: CPU 4 is not one of reservedSystemCPUs, 0-3: user pods run there too; want a part of those
`
	var out bytes.Buffer
	if err := WriteTable(&out, sample(t)); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
	// With huge pages.
	out.Reset()
	p := sample(t)
	p.HugePagesBytes = 512 << 20
	if err := WriteTable(&out, p); err != nil || !strings.Contains(out.String(), "\n- huge pages          0    512Mi   -\n") {
		t.Errorf("%v\n%s", err, &out)
	}
	// Without a node and without files.
	out.Reset()
	p = sample(t)
	p.Configuration, p.Members, p.Usage, p.Warnings = allocatable.Origin{}, nil, nil, []string{"a\nb\x1b[31m"}
	if err := WriteTable(&out, p); err != nil || !strings.HasPrefix(out.String(), "Configuration  none\n") ||
		strings.Contains(out.String(), "SLICE") || strings.Contains(out.String(), "pods of the partition") || !strings.HasSuffix(out.String(), "\nwarning: a; b?[31m\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestWriteJSON: each amount has milliCPU and memoryBytes, and YAML has the same fields.
func TestWriteJSON(t *testing.T) {
	t.Parallel()
	var asJSON, asYAML bytes.Buffer
	if err := WriteJSON(&asJSON, sample(t)); err != nil {
		t.Fatal(err)
	}
	if err := WriteYAML(&asYAML, sample(t)); err != nil {
		t.Fatal(err)
	}
	var got, fromYAML map[string]any
	if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(asYAML.Bytes(), &fromYAML); err != nil || !reflect.DeepEqual(got, fromYAML) {
		t.Errorf("%v\n%v\n%v", err, got, fromYAML)
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
	const system = `{"name":"system","slice":"kubepods-system.slice",`
	for path, want := range map[string]string{
		"partitions": `[` + system + `"milliCPU":2000,"memoryBytes":4294967296}]`,
		"cpuPools":   `{"partitions":[` + system + `"cpus":"3-4","count":2}],"reserved":{"cpus":"0-3","count":4},"shared":{"cpus":"5-15","count":11}}`,
	} {
		var expected any
		if err := json.Unmarshal([]byte(want), &expected); err != nil || !reflect.DeepEqual(got[path], expected) {
			t.Errorf("%s: %v, %v; want %s", path, err, got[path], want)
		}
	}
	for _, name := range []string{"cpuPools", "providers", "usage", "warnings", "configuration", "members"} {
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
	if err := WriteJSON(&asJSON, Plan{Budget: empty}); err != nil || strings.Contains(asJSON.String(), `"warnings": null`) ||
		strings.Contains(asJSON.String(), `"partitions": null`) {
		t.Errorf("%v\n%s", err, &asJSON)
	}
}
