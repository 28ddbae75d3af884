package node

import (
	"errors"
	"fmt"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// facts lists the files of the kernel that a section is checked against.
var facts = []string{
	"/proc/cmdline", "/proc/meminfo", "/sys/devices/system/cpu/present", "/sys/devices/system/cpu/online",
	partition.CgroupMount + "/cgroup.controllers",
}

// ErrFacts means that the files of another node do not have all facts that a section is checked
// against. A disk has none of them.
var ErrFacts = errors.New("the section is not checked")

// missingFacts returns an ErrFacts with the facts that the files of another node lack, and nil if
// they lack none.
func missingFacts(n host.Node) error {
	if !n.Foreign {
		return nil
	}
	var missing []string
	for _, name := range facts {
		if !n.Root.Exists(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: not among the files of --root: %s", ErrFacts, strings.Join(missing, ", "))
}
