package lab

import (
	"fmt"
	"regexp"
	"strings"
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

// stepBegins ends the line with which a step begins.
const stepBegins = " ..."

// stepEnded matches the line with which a step ends.
var stepEnded = regexp.MustCompile(`^(.+): [0-9]+\.[0-9] s$`)

// BeginStep reports the begin of a long step to progress. The returned function reports how long it
// took.
func BeginStep(progress func(string), name string) (done func()) {
	began := time.Now()
	progress(name + stepBegins)
	return func() { progress(fmt.Sprintf("%s: %.1f s", name, time.Since(began).Seconds())) }
}

// ReadStep returns the name of the step that begins or ends with a line of progress. For any other
// line the name is empty.
func ReadStep(line string) (name string, over bool) {
	if name, begins := strings.CutSuffix(line, stepBegins); begins {
		return name, false
	}
	if m := stepEnded.FindStringSubmatch(line); m != nil {
		return m[1], true
	}
	return "", false
}
