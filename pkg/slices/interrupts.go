package slices

import (
	"slices"

	"github.com/coreos/go-systemd/v22/unit"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/interrupts"
	"nodepartition/pkg/slices/config"
)

// BansDropin is the drop-in of irqbalance's service.
const BansDropin = interrupts.Service + ".d/" + dropinName

// irq holds what the units for interrupts depend on.
type irq struct {
	// program is the path of this program; empty if interrupts are not kept off CPUs, and were not
	// earlier in this boot.
	program string
	// irqbalance means that its service is installed.
	irqbalance bool
}

// findIRQ reads what the units for interrupts depend on.
func findIRQ(node hostfs.FS, in *Input) irq {
	_, kept := in.kept[InterruptsService]
	if in.config.IRQCPUs.IsEmpty() && !kept && !interrupts.Left(node) {
		return irq{}
	}
	return irq{program: programPath(node), irqbalance: installed(node, interrupts.Service)}
}

// addInterrupts keeps interrupts of devices off the exclusive CPUs, or puts back what it was before
// that. The boot starts InterruptsService with the slices, and ApplyService runs it again after a
// reload.
func addInterrupts(add func(string, ...*unit.UnitOption), in *Input) {
	if in.irq.program == "" {
		return
	}
	cpus := in.config.IRQCPUs
	list := NoCPUs
	if !cpus.IsEmpty() {
		list = cpus.String()
	}
	about := []*unit.UnitOption{
		option("Unit", "Description", "Keep Interrupts off Exclusive CPUs"),
		option("Unit", "Documentation", config.Documentation),
		option("Unit", "StartLimitIntervalSec", "0"), // reloads may come one after the other
	}
	if in.irq.irqbalance {
		// At the boot it starts with the right list, and need not be restarted.
		about = append(about, option("Unit", "After", interrupts.Service))
	}
	add(InterruptsService, slices.Concat(about, []*unit.UnitOption{
		option("Service", "Type", "oneshot"),
		option("Service", "ExecStart", "/bin/sh -c \"exec "+in.irq.program+" --interrupts "+list+"\""),
		option("Service", "SyslogIdentifier", program), // and not the shell's
		option("Service", "LogLevelMax", "notice"),
	})...)
	if cpus.IsEmpty() || !in.irq.irqbalance {
		return
	}
	// Of the same variable in several files, the last counts, and the unit's own files are first.
	// systemd reads the files before each command, so the first one here has what the second sees
	// without the file, and the second writes what irqbalance sees. Both need what irqbalance is not
	// allowed to ("+"), and it starts without them ("-").
	add(BansDropin,
		option("Service", "EnvironmentFile", "-"+interrupts.BansFile),
		option("Service", "ExecStartPre", "-+/usr/bin/rm -f "+interrupts.BansFile),
		option("Service", "ExecStartPre", "-+/bin/sh -c \"exec "+in.irq.program+" --irqbalance "+list+"\""))
}

// NoCPUs stands for no CPU on our command line.
const NoCPUs = "none"
