package lab

import (
	"fmt"
	"time"
)

// The names of the long steps that make a node. Lines about an image and its snapshot begin with
// the flavour, see ofFlavour.
const (
	diskStep     = "making the disk"
	importStep   = "importing the container images in a first boot"
	varStep      = "copying /var"
	snapshotStep = "booting a node and saving it when its pods run"
)

func qemuStep(arch string) string { return "unpacking " + withArch("qemu", arch) }

// unpackStep is the step before debianStep for another architecture, see installForeign.
func unpackStep(f Flavour) string { return "unpacking " + debianOf(f) }

func debianStep(f Flavour) string {
	if f.Arch == "" {
		return "installing " + debianOf(f)
	}
	return "installing " + debianOf(f) + " in an emulated machine"
}

// debianOf names the Debian of a flavour.
func debianOf(f Flavour) string {
	if f.Arch == "" {
		return "Debian " + f.Release
	}
	return "Debian " + f.Release + " for " + f.Arch
}

func buildStep(p Program) string { return "building " + p.cacheName() + " " + p.Version }

func ofFlavour(f Flavour, line string) string { return f.Name + ": " + line }

// BeginStep reports the begin of a long step to progress. The returned function reports how long it
// took.
func BeginStep(progress func(string), name string) (done func()) {
	began := time.Now()
	progress(name + " ...")
	return func() { progress(fmt.Sprintf("%s: %.1f s", name, time.Since(began).Seconds())) }
}
