package check

import (
	"encoding/json"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// File has the findings of a node in a bundle of collect.
const File = "check.json"

// recorded returns what check found on another node, if the files of --root are a bundle: it asked
// the services of the node, and read files that no bundle has. It returns nil without any.
func recorded(n host.Node) (found []state.Finding) {
	const maxBytes = 1 << 20
	if n.Answers() == nil {
		return nil
	}
	var told state.Findings
	data, err := n.Root.ReadFile("/"+File, maxBytes)
	if err != nil || json.Unmarshal(data, &told) != nil {
		return nil
	}
	for _, f := range told.Findings {
		if slices.Contains(grades, f.Grade) {
			f.Check = text.Terminal(f.Check)
			found = append(found, f)
		}
	}
	return found
}
