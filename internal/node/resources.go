package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"nodepartition/internal/host"
	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// ResourcesFile holds what the monitor has written to the capacity of its Node, and what it has
// last seen there. A type that is removed while the monitor does not run still loses its resource.
const ResourcesFile = config.StateDir + "/monitor/resources.json"

// resourcesVersion is the version of ResourcesFile.
const resourcesVersion = 1

// Resources holds the resources of workload types on the Node of this node, in thousandths of a
// CPU, by type.
type Resources struct {
	// Node is the UID of the Node. A Node that was deleted and made again has none of them.
	Node string `json:"node,omitempty"`
	// Written holds what the monitor has written. The value is 0 for a resource that an earlier boot
	// has written.
	Written map[string]int64 `json:"written,omitempty"`
	// Seen holds the values that the Node had when the monitor last saw it, of the types that are
	// configured and of Written.
	Seen map[string]int64 `json:"seen,omitempty"`
}

// Equal reports whether the same was written and seen.
func (r Resources) Equal(other Resources) bool {
	return r.Node == other.Node && maps.Equal(r.Written, other.Written) && maps.Equal(r.Seen, other.Seen)
}

type resourcesFile struct {
	Version int `json:"version"`
	Resources
}

// ReadResources reads ResourcesFile. There are none without one.
func ReadResources(n host.Node) (Resources, error) {
	var file resourcesFile
	path := n.Path(ResourcesFile)
	err := statefile.ReadVersion(path, resourcesVersion, &file)
	if errors.Is(err, fs.ErrNotExist) {
		return Resources{}, nil
	}
	if err != nil {
		return Resources{}, fmt.Errorf("%s: %w; remove it", path, err)
	}
	return file.Resources, nil
}

// WriteResources replaces ResourcesFile. A node without resources has no file.
func WriteResources(n host.Node, r Resources) error {
	path := n.Path(ResourcesFile)
	var err error
	if len(r.Written) == 0 && len(r.Seen) == 0 {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		err = statefile.Write(path, resourcesFile{resourcesVersion, r}, 0o600)
	}
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}

// Types lists the workload types whose pods are members of a partition.
func (f Followed) Types(of unitname.PartitionName) []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Partition == of {
			types = append(types, w.Type)
		}
	}
	return types
}

// Advertised lists the workload types whose resource is to be on the Node.
func (f Followed) Advertised() []string {
	var types []string
	for _, w := range f.Workloads {
		if w.Advertise {
			types = append(types, w.Type)
		}
	}
	return types
}
