package slices

import (
	"encoding/json"
	"fmt"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
)

// Input is everything a plan is made from.
type Input struct {
	config  *kubeletconfig.Config
	section map[string]json.RawMessage
	node    *Node
	off     bool // by the kernel command line
	// kept are the files of the output in place that stay for the rest of the boot, by path.
	kept map[string]string
	// keptWarning is why they could not be read.
	keptWarning string
	// running says that the partition's cgroup exists.
	running bool
	// memory is that of the running partition, monitor whether MonitorService runs: they say whether a limit can be lowered now.
	memory  memory
	monitor bool
	// operator says that an operator has set the limit by hand, which wins.
	operator bool
}

// Load reads the configuration and, where there is a systemPartition section, the facts of the node. root is
// the root directory of the node, "/" but for tests; output is where the plan will be written.
func Load(root string, output Output) (*Input, error) { return load(root, output, kubeletconfig.Load) }

// LoadWith is Load with a document, called name in messages, in place of kubeletconfig.OverridePath: its section is
// judged before it is in force.
func LoadWith(root string, output Output, name string, data []byte) (*Input, error) {
	return load(root, output, func(node hostfs.FS) (*kubeletconfig.Config, error) {
		return kubeletconfig.LoadWith(node, name, data)
	})
}

func load(root string, output Output, config func(hostfs.FS) (*kubeletconfig.Config, error)) (*Input, error) {
	node := hostfs.FS(root)
	in := &Input{config: &kubeletconfig.Config{}}
	var err error
	if in.off, err = switchedOff(node); err != nil || in.off {
		return in, err
	}
	in.running = node.Exists(systemCgroup)
	if in.kept, err = output.Kept(); err != nil {
		in.kept, in.keptWarning = nil, fmt.Sprintf("%v, taking it for none", err)
	}
	if in.config, err = config(node); err != nil {
		return in, err
	}
	if in.section, err = decodeSection(in.config); err != nil || in.section == nil {
		return in, err
	}
	if in.running {
		in.memory, in.monitor, in.operator = readUsage(node), monitorEvicts(node), operatorLimited(node)
	}
	in.node, err = ReadNode(node)
	return in, err
}
