package node

import (
	"errors"
	"fmt"
	"io/fs"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// WrittenFile holds the resources of workload types that the monitor has written to its Node since
// the node was booted.
const WrittenFile = config.StateDir + "/monitor/nodestatus.json"

// writtenVersion is the version of WrittenFile.
const writtenVersion = 4

// Written holds the resources of workload types on the Node of this node.
type Written struct {
	Version int `json:"version"`
	// Node is the UID of the Node, empty if it is not known. Another Node of the name has other Cores.
	Node string `json:"node,omitempty"`
	// Cores holds the values that the Node had after the last write, in thousandths of a CPU by type:
	// of the types that are configured, and of those that this program has written.
	Cores map[string]int64 `json:"cores,omitempty"`
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
