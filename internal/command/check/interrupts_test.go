package check

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"nodepartition/tests/fakenode"
)

// TestInterruptFindings: one line counts the interrupts on exclusive CPUs, and names ten.
func TestInterruptFindings(t *testing.T) {
	t.Parallel()
	exclusive := cpuset.New(2, 3)
	here, elsewhere := interrupt{24, "eth0-rx", cpuset.New(3)}, interrupt{25, "eth0-tx", cpuset.New(0)}
	const count = 12
	many := append(make([]interrupt, 0, 1+count), elsewhere)
	for i := range count {
		many = append(many, interrupt{i, "nvme", cpuset.New(1, 2)})
	}
	for name, test := range map[string]struct {
		list []interrupt
		want []string
	}{
		"none":      {nil, []string{"ok none of the 0 interrupts"}},
		"elsewhere": {[]interrupt{elsewhere}, []string{"ok none of the 1 interrupts", "2-3"}},
		"one":       {[]interrupt{here, elsewhere}, []string{"warning 1 of 2 interrupts are delivered to the exclusive CPUs 2-3: 24 eth0-rx (CPU 3) |", "set IRQ_CPUS=partition", "IRQBALANCE_BANNED_CPULIST"}},
		"many":      {many, []string{"warning 12 of 13 interrupts", "9 nvme (CPU 2), ... |"}},
	} {
		expectLines(t, name, interruptFindings(test.list, exclusive, keptOff{}), [][]string{test.want})
	}
}

// TestCheckInterrupts: an interrupt without a handler does not count.
func TestCheckInterrupts(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition(fmt.Sprint(64 << 20))
	n.Serve(&fakenode.Runtime{})
	expect(t, n, passes, []string{"ok      interrupts: no partition has exclusive CPUs"})
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
		"systemPartition: {namespaces: [kube-system], memoryLimit: 64Mi, cpuset: '2-3', exclusive: true}\n"))
	n.Write(fakenode.SystemCgroup+"/cpuset.cpus", "2-3")
	expect(t, n, passes, []string{"warning interrupts: whether devices interrupt the exclusive CPUs 2-3 is not known: /proc/irq: "})
	n.Write("/proc/irq/default_smp_affinity", "f")
	n.Write("/proc/irq/7/effective_affinity_list", "3")
	expect(t, n, passes, []string{"ok      interrupts: none of the 0 interrupts"})
	for number, cpus := range map[int]string{8: "3", 9: "0-1", 10: ""} {
		n.Write(fmt.Sprintf("/proc/irq/%d/device/.keep", number), "")
		n.Write(fmt.Sprintf("/proc/irq/%d/effective_affinity_list", number), cpus)
	}
	expect(t, n, passes, []string{"warning interrupts: 1 of 3 interrupts are delivered to the exclusive CPUs 2-3: 8 device (CPU 3)\n"})
	n.RemoveAll("/proc/irq/9/effective_affinity_list")
	expect(t, n, passes, []string{"warning interrupts: whether devices interrupt the exclusive CPUs 2-3 is not known: /proc/irq/9/effective_affinity_list: "})
	n.Write("/proc/irq/9/effective_affinity_list", "x")
	if stdout, _ := text(t, n, nil); !strings.Contains(stdout, "is not known: /proc/irq/9/effective_affinity_list: ") {
		t.Error(stdout)
	}
}
