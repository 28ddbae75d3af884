package status

import (
	"encoding/json"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
)

// File has the status of a node in a bundle of collect.
const File = "status.json"

// maxBytes bounds it: a node with 500 pods has a third of a megabyte.
const maxBytes = 4 << 20

// recorded returns what status said on another node, if the files of --root are a bundle. It knew
// the pods, which the files alone do not have.
func recorded(n host.Node) (told state.Status, ok bool) {
	if n.Answers() == nil {
		return told, false
	}
	data, err := n.Root.ReadFile("/"+File, maxBytes)
	if err != nil || json.Unmarshal(data, &told) != nil || told.Time.IsZero() {
		return state.Status{}, false
	}
	//guard: a name in a foreign bundle is a name
	if slices.ContainsFunc(told.Partitions, func(p state.Partition) bool { return p.Name.Check() != nil }) {
		return state.Status{}, false
	}
	told.Service += ", by its " + File + " of " + told.Time.Format(time.RFC3339)
	return told, true
}
