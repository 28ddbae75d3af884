package check

import (
	"fmt"
	"testing"

	"nodepartition/tests/fakenode"
)

// TestCheckKeptOff: with IRQ_CPUS, what is missing for it to be in effect is said. There is not a
// warning for what stays on the exclusive CPUs all the same.
func TestCheckKeptOff(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition(fmt.Sprint(64 << 20))
	n.Serve(&fakenode.Runtime{})
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
		"systemPartition: {namespaces: [kube-system], memoryLimit: 64Mi, cpuset: '2-3', exclusive: true}\n"))
	n.Write(fakenode.SystemCgroup+"/cpuset.cpus", "2-3")
	const (
		procs    = "/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs"
		affinity = "/proc/irq/default_smp_affinity"
	)
	irqbalance := func(variables string) func() {
		return func() {
			n.Write(procs, "77\n78")
			n.Write("/proc/78/environ", "PATH=/bin\x00"+variables+"\x00LANG=C")
		}
	}
	n.Write("/proc/irq/8/device/.keep", "")
	n.Write("/proc/irq/8/effective_affinity_list", "3")
	n.Write("/etc/default/node-partition", "IRQ_CPUS=partition")
	for _, step := range []struct {
		what   string
		change func()
		want   string
	}{
		{"no file of the kernel", func() {}, "warning interrupts: whether IRQ_CPUS keeps interrupts off the exclusive CPUs 2-3 is not known: " + affinity},
		{"no mask", func() { n.Write(affinity, "x") }, "is not known: " + affinity + `: "x": is not a mask`},
		{"not applied", func() { n.Write(affinity, "f") }, "warning interrupts: 1 of 1 interrupts are delivered to the exclusive CPUs 2-3 although IRQ_CPUS is set: " +
			affinity + " is f; they are 8 device (CPU 3)"},
		{"no irqbalance", func() { n.Write(affinity, "3") }, "although IRQ_CPUS is set: irqbalance.service does not run"},
		{"it has ended", func() { n.Write(procs, "77") }, "although IRQ_CPUS is set: irqbalance.service does not run"},
		{"another list", irqbalance("IRQBALANCE_BANNED_CPULIST=2"), "although IRQ_CPUS is set: irqbalance.service leaves out 2;"},
		{"none", irqbalance("IRQBALANCE_BANNED_CPULIST=-"), "although IRQ_CPUS is set: irqbalance.service leaves out no CPU;"},
		{"a mask wins", irqbalance("IRQBALANCE_BANNED_CPULIST=2-3\x00IRQBALANCE_BANNED_CPUS=1"), "although IRQ_CPUS is set: irqbalance.service leaves out 0;"},
		{"in effect", irqbalance("IRQBALANCE_BANNED_CPULIST=0,2-3"), "ok      interrupts: 1 of 1 interrupts stay on the exclusive CPUs 2-3 with IRQ_CPUS in effect: " +
			"the kernel manages them itself, or irqbalance leaves them there: 8 device (CPU 3)"},
		{"none there", func() { n.Write("/proc/irq/8/effective_affinity_list", "0") }, "ok      interrupts: none of the 1 interrupts"},
		{"and none is moved", func() { n.RemoveAll(procs) }, "ok      interrupts: none of the 1 interrupts"},
		{"new ones may come", func() { n.Write(affinity, "f") }, "warning interrupts: new interrupts may be delivered to the exclusive CPUs 2-3 although IRQ_CPUS is set: " +
			affinity + " is f\n"},
	} {
		step.change()
		t.Log(step.what)
		expect(t, n, passes, []string{step.want})
	}
}
