package lab

import (
	"slices"
	"strings"
)

// arm64 is the architecture of the nodes that are not of this machine's kind, as Go and Debian name
// it. This machine's has an empty name in a Flavour, a Program and an image. JSON leaves that out,
// so no key of an amd64 node depends on it.
const arm64 = "arm64"

// architectures lists the names of all.
func architectures() []string { return []string{"", arm64} }

// platform holds the differences between machines of two architectures.
type platform struct {
	// goarch is the name of the architecture in Go and in Debian.
	goarch string
	// qemu is the name of the program that runs the machines, and pkg Debian's package with it.
	qemu, pkg string
	// machine is qemu's model of the board, and cpu of the processor under emulation.
	machine, cpu string
	// console is the kernel's name of the first serial port.
	console string
	// vmgenid means that the machine has that device. The kernel finds it by way of ACPI.
	vmgenid bool
}

// platformOf returns the platform of an architecture. The processor of amd64 has all features that
// are emulated, with these exceptions:
//
//   - Five-level page tables make every fault longer, and every context switch saves the AVX
//     registers. Without both a boot took 48 s of the host's CPU time instead of 55 (qemu 7.2).
//   - With the quick string instructions kernel and libc clear and copy with rep stosb and rep
//     movsb, each byte of which is a step of the emulator's.
//
// And svm is off, because udev would load KVM for it.
//
// The processor of arm64 is a server's. It has the atomic instructions of Armv8.1, each of which is
// one step of the emulator's. An older one, such as the Cortex-A72, has loops in their place. It
// does not have pointer authentication, which newer ones and "max" have: Debian 13's programs sign
// and check the return address at each call of a function, and the emulator computes a hash for
// that. Nor does it have vectors of a variable length, which a context switch would save. The
// machine is booted without firmware, and so without ACPI. GICv3 has registers of the processor
// where GICv2 has memory of a device, which takes the emulator's slow path at each interrupt.
func platformOf(arch string) platform {
	if arch == arm64 {
		return platform{
			goarch:  "arm64",
			qemu:    "qemu-system-aarch64",
			pkg:     "qemu-system-arm",
			machine: "virt,gic-version=3,acpi=off",
			cpu:     "neoverse-n1",
			console: "ttyAMA0",
		}
	}
	return platform{
		goarch:  "amd64",
		qemu:    "qemu-system-x86_64",
		pkg:     "qemu-system-x86",
		machine: "pc,vmport=off,hpet=off",
		cpu:     "max,la57=off,xsave=off,svm=off,erms=off,fsrm=off",
		console: "ttyS0",
		vmgenid: true,
	}
}

// withArch appends an architecture to a name in the cache, unless it is this machine's.
func withArch(name, arch string) string {
	if arch == "" {
		return name
	}
	return name + "-" + arch
}

// leftOut reports whether go build for an architecture leaves out a file because of its name.
func leftOut(path, arch string) bool {
	return slices.ContainsFunc(architectures(), func(other string) bool {
		return other != arch && strings.HasSuffix(path, "_"+platformOf(other).goarch+".go")
	})
}
