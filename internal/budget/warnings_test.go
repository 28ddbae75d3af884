package budget

import (
	"strings"
	"testing"
)

// TestWarnings: each case has the beginnings of its warnings, in their order. The node has 8 CPUs
// and 16Gi.
func TestWarnings(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	reserved := Kubelet{ReservedSystemCPUs: "0-3", SystemReserved: values{"memory": "4Gi"}}
	partition := func(limit int64, list string) *Partition {
		return &Partition{Name: "system", Section: "systemPartition", Resources: Resources{MemoryBytes: limit}, CPUs: cpus(t, list)}
	}
	advertised := func(list string) *Partition {
		return &Partition{Name: "batch", Section: "workloadPartitions.batch", CPUs: cpus(t, list), Advertised: true}
	}
	for name, test := range map[string]struct {
		kubelet   Kubelet
		capacity  string
		partition *Partition
		members   *Members
		host      int64
		want      []string
	}{
		"none": {kubelet: reserved, partition: partition(4*gibi, "0-3")},
		"more than the node has": {
			kubelet: Kubelet{KubeReserved: values{"cpu": "9", "memory": "16Gi"}, EvictionHard: values{"memory.available": "1"}},
			want:    []string{"kubeReserved, systemReserved and evictionHard take more cpu", "kubeReserved, systemReserved and evictionHard take more memory"},
		},
		"all of the memory": {kubelet: Kubelet{KubeReserved: values{"memory": "16Gi"}}, want: []string{"no memory is allocatable"}},
		"huge pages":        {capacity: "hugepages-1Gi=16Gi", want: []string{"no memory is allocatable"}},
		"enforced memory": {
			kubelet: Kubelet{EnforceNodeAllocatable: []string{"system-reserved"}, SystemReservedCgroup: "/system.slice", SystemReserved: values{"memory": "1Gi"}},
			want:    []string{"enforceNodeAllocatable has system-reserved: the kubelet sets memory.max of /system.slice to 1Gi"},
		},
		"enforced CPU alone": {
			kubelet: Kubelet{EnforceNodeAllocatable: []string{"system-reserved-compressible"}, SystemReservedCgroup: "/system.slice", SystemReserved: values{"memory": "1Gi"}},
		},
		"enforced, without memory": {
			kubelet: Kubelet{EnforceNodeAllocatable: []string{"kube-reserved"}, KubeReservedCgroup: "/runtime", KubeReserved: values{"cpu": "1"}},
		},
		"a CPU that is not reserved": {kubelet: reserved, partition: partition(0, "3-4"), want: []string{"systemPartition.cpuset: CPU 4 is not one of reservedSystemCPUs, 0-3"}},
		"static, CPUs not reserved": {
			kubelet: Kubelet{CPUManagerPolicy: "static", KubeReserved: values{"cpu": "1"}}, partition: partition(0, "0"),
			want: []string{"systemPartition.cpuset is 0, and reservedSystemCPUs is not set"},
		},
		"nothing static, CPUs not reserved": {
			partition: partition(0, "0-1"), want: []string{"systemPartition.cpuset: the scheduler promises CPU 0-1 to user pods, and they run there too"},
		},
		"nothing static, exclusive": {
			partition: &Partition{Name: "batch", Section: "workloadPartitions.batch", CPUs: cpus(t, "0-1"), Exclusive: true},
			want:      []string{"workloadPartitions.batch.cpuset: the scheduler promises CPU 0-1 to user pods, which are kept off it"},
		},
		"nothing static, as much CPU reserved": {kubelet: Kubelet{SystemReserved: values{"cpu": "2"}}, partition: partition(0, "0-1")},
		"advertised, CPUs not reserved": {
			kubelet: Kubelet{KubeReserved: values{"cpu": "1500m"}}, partition: advertised("2-3"),
			want: []string{"workloadPartitions.batch.cpuset: CPU 2-3 is allocatable, and pods can request it in the resource of the workload type, too"},
		},
		"advertised, as much CPU reserved": {kubelet: Kubelet{KubeReserved: values{"cpu": "1500m"}, SystemReserved: values{"cpu": "500m"}}, partition: advertised("2-3")},
		"advertised, CPUs reserved":        {kubelet: reserved, partition: advertised("2-3")},
		// 16Gi - 4Gi = 12Gi are left.
		"larger than what is left": {
			kubelet: reserved, partition: partition(12*gibi, "0"),
			want: []string{
				"systemPartition.memoryLimit: 12Gi leaves 0 of the node's 16Gi for user pods, with reservations and the eviction threshold: less than 10 %; want less",
				"kubeReserved and systemReserved, 4Gi of memory",
			},
		},
		// A tenth of 16Gi is 1717986918.4 bytes.
		"leaves a tenth": {
			kubelet: reserved, partition: partition(12*gibi-1717986918, "0"), want: []string{"kubeReserved and systemReserved, 4Gi of memory"},
		},
		"leaves less than a tenth": {
			kubelet: reserved, partition: partition(12*gibi-1717986917, "0"),
			want: []string{"systemPartition.memoryLimit: ", "kubeReserved and systemReserved, 4Gi of memory"},
		},
		"all CPUs": {
			partition: partition(0, "0-7"),
			want:      []string{"systemPartition.cpuset: the scheduler promises CPU 0-7", "systemPartition.cpuset: 0-7 leaves user pods none of the node's CPUs 0-7 for themselves; want fewer, or no cpuset"},
		},
		"all CPUs but the reserved ones": {
			kubelet: reserved, partition: partition(0, "4-7"),
			want: []string{"systemPartition.cpuset: CPU 4-7 is not one of reservedSystemCPUs", "systemPartition.cpuset: 4-7 leaves user pods none"},
		},
		"all CPUs but one": {partition: partition(0, "0-6"), want: []string{"systemPartition.cpuset: the scheduler promises CPU 0-6"}},
		"exclusive CPUs that are not reserved": {
			kubelet: reserved, partition: &Partition{Name: "batch", Section: "workloadPartitions.batch", CPUs: cpus(t, "3-4"), Exclusive: true},
			want: []string{"workloadPartitions.batch.cpuset: CPU 4 is not one of reservedSystemCPUs, 0-3: the scheduler promises it to user pods, which are kept off it"},
		},
		"below requests and limits": {
			kubelet: reserved, partition: partition(gibi, "0"), members: &Members{Pods: 3, MemoryRequestBytes: gibi + 1<<20, MemoryLimitBytes: 2 * gibi, Unlimited: 1},
			want: []string{
				"systemPartition.memoryLimit of 1Gi is below the requests of its 3 pods, 1025Mi:",
				"systemPartition.memoryLimit of 1Gi is below the sum of the memory limits of its pods, 2Gi (1 of 3 pods have none)",
			},
		},
		"below the usage": {
			kubelet: reserved, partition: partition(gibi, "0"), members: &Members{Pods: 3, MemoryUsedBytes: gibi + 1<<20},
			want: []string{"systemPartition.memoryLimit of 1Gi, with a threshold of 0, is below what its 3 pods use now, 1025Mi: pods are evicted"},
		},
		"as much as the usage": {kubelet: reserved, partition: partition(gibi, "0"), members: &Members{Pods: 3, MemoryUsedBytes: gibi}},
		"as much as requests and limits": {
			kubelet: reserved, partition: partition(gibi, "0"), members: &Members{Pods: 1, MemoryRequestBytes: gibi, MemoryLimitBytes: gibi},
		},
		// 4Gi reserved cannot include 4Gi and a byte.
		"forgotten": {kubelet: reserved, partition: partition(4*gibi+1, "0"), want: []string{"kubeReserved and systemReserved, 4Gi of memory, do not include the partition: "}},
		// Members request 1Gi, which the scheduler counts: 5Gi - 1Gi = 4Gi.
		"requests count":            {kubelet: reserved, partition: partition(5*gibi, "0"), members: &Members{Pods: 1, MemoryRequestBytes: gibi}},
		"services of the node, too": {kubelet: reserved, partition: partition(4*gibi, "0"), host: 1 << 20, want: []string{"kubeReserved and systemReserved, 4Gi of memory, do not include the partition in addition to the 1Mi that"}},
		"nothing reserved":          {partition: partition(gibi, ""), want: []string{"kubeReserved and systemReserved, 0 of memory"}},
		"static memory manager": {
			kubelet: Kubelet{MemoryManagerPolicy: "Static"}, partition: partition(gibi, ""),
			want: []string{"kubeReserved and systemReserved, 0 of memory, do not include the partition: the scheduler promises 1Gi of " +
				"its memoryLimit to user pods too; raise systemReserved and reservedMemory by 1Gi"},
		},
		"no limit": {partition: partition(0, ""), members: &Members{Pods: 1, MemoryRequestBytes: gibi, MemoryLimitBytes: gibi}, host: gibi},
	} {
		var partitions []Partition
		if test.partition != nil {
			partitions = []Partition{*test.partition}
			partitions[0].Members = test.members
		}
		b, err := Compute(Input{
			Kubelet: test.kubelet, Capacity: capacity(t, "cpu=8 memory=16Gi "+test.capacity), CPUs: cpus(t, "0-7"),
			Partitions: partitions, HostBytes: test.host,
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(b.Warnings) != len(test.want) {
			t.Errorf("%s: %d warnings; want %d:\n%s", name, len(b.Warnings), len(test.want), strings.Join(b.Warnings, "\n"))
			continue
		}
		for i, want := range test.want {
			if !strings.HasPrefix(b.Warnings[i], want) {
				t.Errorf("%s: %q; want %q", name, b.Warnings[i], want)
			}
		}
	}
}
