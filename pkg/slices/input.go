package slices

import (
	"fmt"

	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/lowering"
)

// Input is everything a plan is made from.
type Input struct {
	config *config.Config
	// services are those of ours and of the node that are installed.
	services []string
	// kept are the files of the output in place that stay for the rest of the boot, by path.
	kept map[string]string
	// keptWarning is why they could not be read.
	keptWarning string
	// running says that the partition's cgroup exists.
	running bool
	// deferral is nil where the limit does not have to wait for evictions.
	deferral *lowering.Deferral
}

// Load reads the configuration and, where there is a partition to make, what its units depend on. root is
// the root directory of the node, "/" but for tests; output is where the plan will be written, and has what was written
// before. Where the configuration is not valid, the error is that of config.Load, and the input is for the units that
// may still lead to a partition.
func Load(root string, output Output) (*Input, error) {
	asked, err := config.Load(root)
	in := &Input{config: asked}
	if asked.Off {
		return in, err
	}
	node := hostfs.FS(root)
	in.running = node.Exists(asked.Name.Cgroup())
	if err != nil {
		return in, err
	}
	if in.kept, err = output.kept(keptUnits(asked.Name)); err != nil {
		in.kept, in.keptWarning = nil, fmt.Sprintf("%v, taking it for none", err)
	}
	if asked.Partition != nil {
		in.services = installedServices(node)
		in.deferral = lowering.Find(root, asked)
	}
	return in, nil
}
