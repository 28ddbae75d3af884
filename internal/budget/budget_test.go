package budget

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// capacity returns a resource list of pairs such as cpu=16.
func capacity(t *testing.T, pairs string) v1.ResourceList {
	t.Helper()
	list := v1.ResourceList{}
	for _, pair := range strings.Fields(pairs) {
		name, value, _ := strings.Cut(pair, "=")
		q, err := resource.ParseQuantity(value)
		if err != nil {
			t.Fatal(err)
		}
		list[v1.ResourceName(name)] = q
	}
	return list
}

// cpus returns the CPUs of a list.
func cpus(t *testing.T, list string) cpuset.CPUSet {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// String returns amounts in a short form for tests: thousandths of CPUs, bytes, bytes.
func (r Resources) String() string {
	s := fmt.Sprintf("%dm %d", r.MilliCPU, r.MemoryBytes)
	if r.StorageBytes != nil {
		s += fmt.Sprintf(" %d", *r.StorageBytes)
	}
	return s
}

func amounts(milliCPU, memory int64, storage ...int64) string {
	r := Resources{MilliCPU: milliCPU, MemoryBytes: memory}
	if len(storage) > 0 {
		r.StorageBytes = &storage[0]
	}
	return r.String()
}

// TestComputeExample computes the example of the Kubernetes documentation, "Reserve Compute
// Resources for System Daemons": 16 CPUs, 32Gi and 100Gi; kube-reserved 1 CPU, 2Gi and 1Gi;
// system-reserved 500m, 1Gi and 1Gi; memory.available<500Mi and nodefs.available<10%.
//
// The page first states 98Gi of allocatable storage, and then 88Gi. The kubelet computes 88Gi: 98Gi
// lacks the eviction threshold. It is 160 bytes less, because 10 % is a float32: 0.1 is 2^-26/10
// larger there, and 100Gi * 2^-26/10 is 160. The page's 28.5Gi of memory are 32Gi - 3Gi - 500Mi =
// 29196Mi, rounded. Its unit "storage" is ephemeral-storage in the kubelet.
func TestComputeExample(t *testing.T) {
	t.Parallel()
	in := Input{
		Kubelet: Kubelet{
			KubeReserved:   map[string]string{"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
			SystemReserved: map[string]string{"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
			EvictionHard:   map[string]string{"memory.available": "500Mi", "nodefs.available": "10%"},
		},
		Capacity: capacity(t, "cpu=16 memory=32Gi ephemeral-storage=100Gi"), CPUs: cpus(t, "0-15"),
	}
	b, err := Compute(in)
	if err != nil {
		t.Fatal(err)
	}
	const storage = 88*gibi - 160
	for name, got := range map[string]struct {
		is   Resources
		want string
	}{
		"capacity":       {b.Capacity, amounts(16000, 32*gibi, 100*gibi)},
		"kubeReserved":   {b.KubeReserved, amounts(1000, 2*gibi, gibi)},
		"systemReserved": {b.SystemReserved, amounts(500, gibi, gibi)},
		"threshold":      {b.EvictionThreshold, amounts(0, 500*mebi, 10*gibi+160)},
		"allocatable":    {b.Allocatable, amounts(14500, 29196*mebi, storage)},
		"remainder":      {b.Remainder, amounts(14500, 29196*mebi, storage)},
	} {
		if got.is.String() != got.want {
			t.Errorf("%s is %s; want %s", name, got.is, got.want)
		}
	}
	if len(b.Partitions) != 0 || b.Partitions == nil {
		t.Errorf("partitions %+v; want an empty list", b.Partitions)
	}
	if len(b.Warnings) != 0 || b.Warnings == nil {
		t.Errorf("warnings %q; want an empty list", b.Warnings)
	}
	// With a partition of 4Gi on CPUs 0-3: 29196Mi - 4096Mi = 25100Mi and 14.5 - 4 = 10.5 CPUs remain.
	in.Partitions = []Partition{{Name: "system", Resources: Resources{MemoryBytes: 4 * gibi}, CPUs: cpus(t, "0-3")}}
	if b, err = Compute(in); err != nil {
		t.Fatal(err)
	}
	if b.Allocatable.String() != amounts(14500, 29196*mebi, storage) || len(b.Partitions) != 1 || b.Partitions[0].String() != amounts(4000, 4*gibi) ||
		b.Remainder.String() != amounts(10500, 25100*mebi, storage) {
		t.Errorf("allocatable %s, partitions %+v, remainder %s", b.Allocatable, b.Partitions, b.Remainder)
	}
}

// TestComputePressure: the larger of the kubelet's thresholds counts, also where Node Allocatable
// includes it. One that the kubelet refuses of evictionSoft leaves the rest of the budget as it is.
func TestComputePressure(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	hard := values{"memory.available": "1Gi"}
	for name, test := range map[string]struct {
		kubelet Kubelet
		want    *int64
	}{
		"none":              {Kubelet{EvictionHard: values{"nodefs.available": "5%"}}, new(int64(0))},
		"hard":              {Kubelet{EvictionHard: hard}, new(int64(gibi))},
		"soft":              {Kubelet{EvictionHard: hard, EvictionSoft: values{"memory.available": "25%"}}, new(int64(2 * gibi))},
		"soft and refused":  {Kubelet{EvictionHard: hard, EvictionSoft: values{"memory.available": "x"}}, nil},
		"another threshold": {Kubelet{EvictionHard: hard, EvictionSoft: values{"imagefs.available": "x"}}, nil},
	} {
		b, err := Compute(Input{Kubelet: test.kubelet, IgnoreEviction: true, Capacity: capacity(t, "cpu=4 memory=8Gi")})
		if err != nil || !reflect.DeepEqual(b.PressureBytes, test.want) {
			t.Errorf("%s: %+v, %v; want %v", name, b, err, test.want)
		}
	}
}

// TestComputeAllocatable computes what the kubelet reports, for one rule after the other.
func TestComputeAllocatable(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	off := false
	for name, test := range map[string]struct {
		capacity string
		kubelet  Kubelet
		ignore   bool
		want     string // of Node Allocatable
		kube     string // of kubeReserved, if not empty
		system   string // of systemReserved, if not empty
	}{
		"nothing reserved": {"cpu=4 memory=8Gi", Kubelet{}, false, amounts(4000, 8*gibi), amounts(0, 0), amounts(0, 0)},
		// 8192Mi - 100Mi = 8092Mi.
		"defaults": {"cpu=4 memory=8Gi", Kubelet{EvictionHard: DefaultEvictionHard()}, false, amounts(4000, 8092*mebi), "", ""},
		// 5 % of 8Gi: 0.05 as a float32 is 0.0500000007450580596923828125, and times 2^33 429496736 and
		// less than one byte.
		"percent of memory": {"cpu=4 memory=8Gi", Kubelet{EvictionHard: values{"memory.available": "5%"}}, false, amounts(4000, 8*gibi-429496736), "", ""},
		"0 % and 100 % are off": {
			"cpu=4 memory=8Gi ephemeral-storage=10Gi",
			Kubelet{EvictionHard: values{"memory.available": "0%", "nodefs.available": "100%"}}, false, amounts(4000, 8*gibi, 10*gibi), "", "",
		},
		"other signals do not count": {"cpu=4 memory=8Gi", Kubelet{EvictionHard: values{"imagefs.available": "15%", "nodefs.inodesFree": "5%"}}, false, amounts(4000, 8*gibi), "", ""},
		"the flag that ignores thresholds": {
			"cpu=4 memory=8Gi", Kubelet{EvictionHard: values{"memory.available": "1Gi"}, KubeReserved: values{"memory": "1Gi"}}, true, amounts(4000, 7*gibi), "", "",
		},
		"never negative": {"cpu=1 memory=1Gi", Kubelet{KubeReserved: values{"cpu": "2", "memory": "2Gi"}}, false, amounts(0, 0), "", ""},
		// 0.0005 CPU is 500 millionths, which round up to 1m; 0.0004 are 400, which round down.
		"CPUs are rounded to thousandths": {
			"cpu=1 memory=1Gi", Kubelet{KubeReserved: values{"cpu": "0.0005"}, SystemReserved: values{"cpu": "0.0004"}}, false, amounts(999, gibi), amounts(1, 0), amounts(0, 0),
		},
		// Three CPUs replace 1.5 and 0.5; memory stays.
		"reservedSystemCPUs": {
			"cpu=8 memory=8Gi",
			Kubelet{KubeReserved: values{"cpu": "1500m", "memory": "1Gi"}, SystemReserved: values{"cpu": "500m"}, ReservedSystemCPUs: "0,4-5"},
			false, amounts(5000, 7*gibi), amounts(0, gibi), amounts(3000, 0),
		},
		"reservedSystemCPUs alone": {"cpu=8 memory=8Gi", Kubelet{ReservedSystemCPUs: "0"}, false, amounts(7000, 8*gibi), amounts(0, 0), amounts(1000, 0)},
		// 8Gi - 1Gi - (512Mi + 1Gi) of huge pages = 5632Mi.
		"huge pages": {
			"cpu=8 memory=8Gi hugepages-2Mi=512Mi hugepages-1Gi=1Gi", Kubelet{SystemReserved: values{"memory": "1Gi"}}, false, amounts(8000, 5632*mebi), "", "",
		},
		// Nine times 2^60 are beyond 63 bits.
		"huge pages beyond all memory": {
			"cpu=8 memory=1Gi hugepages-1Ki=1Ei hugepages-2Ki=1Ei hugepages-4Ki=1Ei hugepages-8Ki=1Ei hugepages-16Ki=1Ei " +
				"hugepages-32Ki=1Ei hugepages-64Ki=1Ei hugepages-128Ki=1Ei hugepages-256Ki=1Ei", Kubelet{}, false, amounts(8000, 0), "", "",
		},
		"huge pages of all memory":  {"cpu=8 memory=1Gi hugepages-2Mi=2Gi", Kubelet{}, false, amounts(8000, 0), "", ""},
		"no isolation of storage":   {"cpu=8 memory=1Gi ephemeral-storage=1Gi", Kubelet{LocalStorageCapacityIsolation: &off}, false, amounts(8000, gibi), "", ""},
		"process IDs are no amount": {"cpu=8 memory=1Gi", Kubelet{KubeReserved: values{"pid": "1000"}}, false, amounts(8000, gibi), "", ""},
		"decimal units":             {"cpu=8 memory=1Gi", Kubelet{KubeReserved: values{"memory": "1M"}}, false, amounts(8000, gibi-1_000_000), "", ""},
	} {
		b, err := Compute(Input{Kubelet: test.kubelet, IgnoreEviction: test.ignore, Capacity: capacity(t, test.capacity), CPUs: cpus(t, "0-7")})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "huge pages" && b.HugePagesBytes != gibi+512*mebi {
			t.Errorf("%s: %d bytes", name, b.HugePagesBytes)
		}
		if b.HugePagesBytes < 0 {
			t.Errorf("%s: %d bytes of huge pages", name, b.HugePagesBytes)
		}
		if b.Allocatable.String() != test.want {
			t.Errorf("%s: allocatable %s; want %s", name, b.Allocatable, test.want)
		}
		if test.kube != "" && b.KubeReserved.String() != test.kube || test.system != "" && b.SystemReserved.String() != test.system {
			t.Errorf("%s: reserved %s and %s; want %s and %s", name, b.KubeReserved, b.SystemReserved, test.kube, test.system)
		}
	}
}

// TestComputeRefused: values that the kubelet refuses are errors that name the field, all at once.
func TestComputeRefused(t *testing.T) {
	t.Parallel()
	_, err := Compute(Input{Capacity: capacity(t, "cpu=1 memory=1Gi ephemeral-storage=1Gi"), Kubelet: Kubelet{
		KubeReserved:   map[string]string{"storage": "1Gi", "memory": "-1", "cpu": "1e13"},
		SystemReserved: map[string]string{"cpu": "1e99999999", "pid": "1x", "memory": "1e18"},
		EvictionHard: map[string]string{
			"memory.available": "0", "nodefs.available": "101%", "imagefs.available": "1x",
		},
		ReservedSystemCPUs: "0-",
	}})
	for _, want := range []string{
		`kubeReserved[storage]: "1Gi" cannot be reserved; want cpu, memory, ephemeral-storage or pid; the kubelet does not start with it`,
		`kubeReserved[memory]: "-1" is negative;`, `kubeReserved[cpu]: "1e13" is too large`,
		`systemReserved[cpu]: "1e99999999" is not a quantity;`, `systemReserved[pid]: "1x" is not a quantity;`, `systemReserved[memory]: "1e18" is too large`,
		`evictionHard[memory.available]: "0" is not above zero;`, `evictionHard[nodefs.available]: "101%" is not between 0% and 100%;`,
		`evictionHard[imagefs.available]: "1x" is not a quantity;`,
		`reservedSystemCPUs: "0-" is not a list of CPUs;`,
	} {
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	// Each CPU of such a range would take memory.
	if _, err := parseCPUs("0-999999999"); err == nil {
		t.Error("a billion CPUs: want an error")
	}
	for _, value := range []string{"x%", "NaN%", "-1%", "1x", "1e19"} {
		if _, err := parseThreshold(value, resource.MustParse("1Gi")); err == nil {
			t.Errorf("%s: want an error", value)
		}
	}
}

// TestSplit: Node Allocatable is 10 CPUs and 10Gi.
func TestSplit(t *testing.T) {
	t.Parallel()
	whole := Resources{MilliCPU: 10_000, MemoryBytes: 10 * gibi}
	for name, test := range map[string]struct {
		partition            []Partition
		reserved             string
		wantPart, wantRemain string
	}{
		"none":                   {nil, "", amounts(0, 0), amounts(10_000, 10*gibi)},
		"no limit, no cpuset":    {[]Partition{{}}, "0-1", amounts(0, 0), amounts(10_000, 10*gibi)},
		"CPUs that are reserved": {[]Partition{{Resources: Resources{MemoryBytes: gibi}, CPUs: cpus(t, "0-1")}}, "0-3", amounts(2000, gibi), amounts(10_000, 9*gibi)},
		"one CPU that is not":    {[]Partition{{Resources: Resources{MemoryBytes: gibi}, CPUs: cpus(t, "1-2")}}, "0-1", amounts(2000, gibi), amounts(9000, 9*gibi)},
		"two": {
			[]Partition{{Name: "system", Resources: Resources{MemoryBytes: gibi}, CPUs: cpus(t, "0-1")}, {Name: "batch", Resources: Resources{MemoryBytes: 2 * gibi}, CPUs: cpus(t, "1-3")}}, "0",
			amounts(3000, 2*gibi), amounts(7_000, 7*gibi),
		},
		"more than is left of either": {[]Partition{{Resources: Resources{MemoryBytes: 11 * gibi}, CPUs: cpus(t, "0-10")}}, "", amounts(11_000, 11*gibi), amounts(0, 0)},
	} {
		remainder := split(whole, test.partition, cpus(t, test.reserved))
		var partition Resources
		for _, p := range test.partition {
			partition = p.Resources
		}
		if partition.String() != test.wantPart || remainder.String() != test.wantRemain {
			t.Errorf("%s: %s and %s; want %s and %s", name, partition, remainder, test.wantPart, test.wantRemain)
		}
	}
}
