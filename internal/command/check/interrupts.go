package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/config"
)

const (
	irqDir = "/proc/irq"
	// maxIRQs exceeds the interrupts of a kernel (IRQ_BITMAP_BITS, kernel/irq/internals.h).
	maxIRQs = 1 << 20
	// maxHandlers bounds the entries of the folder of one.
	maxHandlers = 1000
)

// interrupt is an interrupt of a device.
type interrupt struct {
	number int
	// handler is the name of a handler of it.
	handler string
	// cpus holds the CPUs to which the kernel delivers it.
	cpus cpuset.CPUSet
}

// interrupts checks that no device interrupts the CPUs of an exclusive partition.
func (c *checks) interrupts(context.Context) []Finding {
	exclusive := config.ExclusiveCPUs(c.desired.Partitions)
	if exclusive.IsEmpty() {
		return saying(OK, "no partition has exclusive CPUs")
	}
	list, err := readInterrupts(c.options.Node.Root)
	if err != nil {
		return saying(Warning, "whether devices interrupt the exclusive CPUs %s is not known: %v", exclusive, err)
	}
	kept, err := c.keptOff(exclusive)
	if err != nil {
		return saying(Warning, "whether IRQ_CPUS keeps interrupts off the exclusive CPUs %s is not known: %v", exclusive, err)
	}
	return interruptFindings(list, exclusive, kept)
}

// readInterrupts lists the interrupts that have a handler. An interrupt without one does not occur,
// whatever CPU it is set to.
func readInterrupts(root hostfs.FS) ([]interrupt, error) {
	entries, err := root.ReadDir(irqDir, maxIRQs)
	if err != nil {
		return nil, err
	}
	var list []interrupt
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil || !entry.IsDir() {
			continue
		}
		dir := path.Join(irqDir, entry.Name())
		below, err := root.ReadDir(dir, maxHandlers)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its device is gone
		}
		if err != nil {
			return nil, err
		}
		handler := slices.IndexFunc(below, fs.DirEntry.IsDir)
		//guard: an interrupt without a handler does not occur
		if handler < 0 {
			continue
		}
		text, err := root.ReadFile(path.Join(dir, "effective_affinity_list"), maxSysfs)
		if errors.Is(err, fs.ErrNotExist) && root.Exists(dir) {
			return nil, err // a kernel that does not say
		}
		if err != nil {
			continue
		}
		cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("%s/effective_affinity_list: %w", dir, err)
		}
		list = append(list, interrupt{number, below[handler].Name(), cpus})
	}
	slices.SortFunc(list, func(a, b interrupt) int { return a.number - b.number })
	return list, nil
}

// interruptFindings counts the interrupts that are delivered to exclusive CPUs. Those that stay
// there with IRQ_CPUS in effect are somebody's decision, or the kernel's.
func interruptFindings(list []interrupt, exclusive cpuset.CPUSet, kept keptOff) []Finding {
	var there []string
	for _, i := range list {
		if shared := i.cpus.Intersection(exclusive); !shared.IsEmpty() {
			there = append(there, fmt.Sprintf("%d %s (CPU %s)", i.number, i.handler, shared))
		}
	}
	switch {
	case len(there) == 0 && kept.forNew:
		return changing(Warning, kept.change, "new interrupts may be delivered to the exclusive CPUs %s although IRQ_CPUS is set: %s",
			exclusive, kept.lacks)
	case len(there) == 0:
		return saying(OK, "none of the %d interrupts with a handler is delivered to the exclusive CPUs %s", len(list), exclusive)
	case kept.lacks != "":
		return changing(
			Warning, kept.change, "%d of %d interrupts are delivered to the exclusive CPUs %s although IRQ_CPUS is set: %s; they are %s",
			len(there), len(list), exclusive, kept.lacks, first(there),
		)
	case kept.on:
		return saying(OK, "%d of %d interrupts stay on the exclusive CPUs %s with IRQ_CPUS in effect: the kernel manages them itself, "+
			"or irqbalance leaves them there: %s", len(there), len(list), exclusive, first(there))
	}
	return changing(
		Warning, "set IRQ_CPUS=partition in /etc/default/node-partition and run systemctl daemon-reload; or have irqbalance leave these CPUs "+
			"out (IRQBALANCE_BANNED_CPULIST), or write other CPUs to smp_affinity_list of the interrupts; the kernel refuses that for "+
			"interrupts that it manages itself, as of NVMe queues",
		"%d of %d interrupts are delivered to the exclusive CPUs %s: %s", len(there), len(list), exclusive, first(there),
	)
}
