package node

import (
	"errors"
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// WrittenFile holds what the monitor has written to its Node, and so what it has to take back: an
// option or a type that goes while the monitor does not run still takes its part of the Node along.
// Without the file the node was booted, and what an earlier boot has written may be there.
const WrittenFile = config.StateDir + "/monitor/nodestatus.json"

// writtenVersion is the version of WrittenFile.
const writtenVersion = 3

// Written holds what may be on the Node of this node.
type Written struct {
	Version int `json:"version"`
	// Node is the UID of the Node, empty if it is not known. A Node that was deleted and made again
	// has no Cores of ours.
	Node string `json:"node,omitempty"`
	// Labels holds labels by name. The value is empty if it is not known.
	Labels map[string]string `json:"labels,omitempty"`
	// Conditions holds conditions by type. The status is empty if it is not known.
	Conditions map[v1.NodeConditionType]v1.NodeCondition `json:"conditions,omitempty"`
	// Cores holds the resources of workload types, in thousandths of a CPU by type. The value is 0 for
	// one that an earlier boot has written.
	Cores map[string]int64 `json:"cores,omitempty"`
	// Seen holds the values that the Node had when the monitor last saw it, of the types that are
	// configured and of Cores.
	Seen map[string]int64 `json:"seen,omitempty"`
}

// IsEmpty reports whether nothing of ours may be on the Node.
func (w Written) IsEmpty() bool {
	return len(w.Labels) == 0 && len(w.Conditions) == 0 && len(w.Cores) == 0
}

// ReadWritten reads WrittenFile. The error is an fs.ErrNotExist without one.
func ReadWritten(n host.Node) (Written, error) {
	var w Written
	path := n.Path(WrittenFile)
	err := host.ReadStateVersion(path, writtenVersion, &w)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Written{}, fmt.Errorf("%s: %w; remove it", path, err)
	}
	return w, err
}

// WriteWritten replaces WrittenFile.
func WriteWritten(n host.Node, w Written) error {
	w.Version = writtenVersion
	if err := host.WriteState(n.Path(WrittenFile), w, 0o600); err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
