//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/command/plan"
	"node-partition.io/node-partition/tests/lab"
)

// TestPlan: partition-monitor plan has the capacity and the Node Allocatable that the kubelet
// reports to the API server, for one configuration of the kubelet after the other.
func TestPlan(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		n, control := lab.JoinedForTest(t, lab.Options{Flavour: flavour, Files: append(programs(), kubeletConfig(t, partitionOf("256Mi", "0")))})
		for _, c := range []struct {
			name  string
			file  string // a drop-in over the configuration of the node
			flags string
			pages int // huge pages of 2 MiB
		}{
			// The first has memory.available of 100Mi in its file, and so no other threshold.
			{name: "the file alone"},
			{name: "reservations", file: "kubeReserved: {cpu: 100m, memory: 64Mi, ephemeral-storage: 100Mi, pid: '1000'}\nsystemReserved: {cpu: 50m, memory: 32Mi}\n"},
			{name: "thresholds", file: "evictionHard: {memory.available: 5%, nodefs.available: 3%, imagefs.available: 1%}\n"},
			{name: "a threshold of a drop-in beside that of the file", file: "evictionHard: {nodefs.available: 50Mi}\n"},
			{name: "thresholds that are off", file: "evictionHard: {memory.available: 0%, nodefs.available: 100%}\n"},
			{name: "no thresholds", flags: "--eviction-hard="},
			{name: "flags over the file", file: "kubeReserved: {memory: 64Mi}\n", flags: "--kube-reserved=cpu=150m --eviction-hard=memory.available<150Mi,nodefs.available<2%"},
			{name: "flags with spaces and underscores", flags: "--system_reserved memory=48Mi,ephemeral-storage=10Mi --kube-reserved cpu=1m --kube-reserved memory=1M"},
			{name: "reserved CPUs", file: "reservedSystemCPUs: '0'\nkubeReserved: {cpu: 300m, memory: 32Mi}\n"},
			{name: "reserved CPUs by a flag, static", file: "cpuManagerPolicy: static\n", flags: "--reserved-cpus=1"},
			{name: "static, with a fraction of a CPU", file: "cpuManagerPolicy: static\nsystemReserved: {cpu: '0.2505'}\n"},
			{name: "no isolation of storage", file: "localStorageCapacityIsolation: false\nkubeReserved: {memory: 16Mi}\n"},
			{name: "huge pages", file: "kubeReserved: {memory: 24Mi}\n", pages: 16},
		} {
			t.Run(c.name, func(t *testing.T) {
				err := n.CopyTo(t.Context(),
					lab.File{Path: dropins + "/10-plan.conf", Data: []byte(dropinHead + c.file)},
					lab.File{Path: "/etc/default/kubelet", Data: []byte("KUBELET_EXTRA_ARGS=--config-dir=" + dropins + " " + c.flags + "\n")},
				)
				if err != nil {
					t.Fatal(err)
				}
				// The kubelet does not start with the state of another CPU manager policy.
				run(t, n, fmt.Sprintf("systemctl stop kubelet.service; rm -f /var/lib/kubelet/cpu_manager_state; "+
					"sysctl -q vm.nr_hugepages=%d; systemctl start kubelet.service", c.pages))
				if err := n.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				var p plan.Plan
				if err := json.Unmarshal([]byte(run(t, n, monitorPath+" plan -o json")), &p); err != nil {
					t.Fatal(err)
				}
				// The kubelet reports a change within some seconds of its start.
				eventually(t, n, "the plan in the API", func(ctx context.Context) (bool, string, error) {
					node, err := control.Client().CoreV1().Nodes().Get(ctx, n.Hostname, metav1.GetOptions{})
					if err != nil {
						return false, "", err
					}
					capacity, allocatable := notEqual(p.Capacity, node.Status.Capacity), notEqual(p.Allocatable, node.Status.Allocatable)
					return capacity+allocatable == "", fmt.Sprintf("capacity: %s; allocatable: %s", capacity, allocatable), nil
				})
			})
		}
	})
}

// notEqual returns the differences between amounts of a plan and those in the API.
func notEqual(r budget.Resources, list v1.ResourceList) string {
	text := ""
	for _, amount := range []struct {
		name      string
		ours, API int64
	}{{"milliCPU", r.MilliCPU, list.Cpu().MilliValue()}, {"memory", r.MemoryBytes, list.Memory().Value()}} {
		if amount.ours != amount.API {
			text += fmt.Sprintf("%s is %d, in the API %d; ", amount.name, amount.ours, amount.API)
		}
	}
	// A kubelet that stops counting storage leaves the former values in the API.
	if storage := list.StorageEphemeral().Value(); r.StorageBytes != nil && storage != *r.StorageBytes {
		text += fmt.Sprintf("storage is %d, in the API %d; ", *r.StorageBytes, storage)
	}
	return text
}
