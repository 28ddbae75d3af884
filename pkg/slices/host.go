package slices

import (
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
)

// hostUnits lists the units that hold every process of the node outside of pods, and of slices that
// an operator has made: services, sessions of users, and systemd itself.
var hostUnits = []string{"system.slice", "user.slice", "init.scope"}

// hostDropins lists the drop-ins of hostUnits. They stay for the rest of the boot, because systemd
// writes nothing for a setting that is gone.
func hostDropins() []string {
	dropins := make([]string, 0, len(hostUnits))
	for _, name := range hostUnits {
		dropins = append(dropins, name+".d/"+dropinName)
	}
	return dropins
}

// wasOnHostCPUs reports whether an output of this boot has restricted hostUnits.
func (in *Input) wasOnHostCPUs() bool {
	_, was := in.kept[hostDropins()[0]]
	return was
}

// addHost restricts hostUnits to CPUs, or gives them all CPUs after a restriction in this boot.
func addHost(add func(string, ...*unit.UnitOption), in *Input) {
	if in.hostCPUs.IsEmpty() {
		return
	}
	for i, path := range hostDropins() {
		section := "Slice"
		if strings.HasSuffix(hostUnits[i], ".scope") {
			section = "Scope"
		}
		// systemd adds lists of several files up. An empty one discards those before it.
		add(path, option(section, "AllowedCPUs", ""), option(section, "AllowedCPUs", in.hostCPUs.String()))
	}
}
