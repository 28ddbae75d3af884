package state

import "node-partition.io/node-partition/internal/kubeletconfig"

// Grade is the severity of a finding.
type Grade string

// The grades.
const (
	OK      Grade = "ok"
	Warning Grade = "warning"
	Error   Grade = "error"
	// Ignored is a warning or an error of a check that the user ignores.
	Ignored Grade = "ignored"
)

// Findings is the output of partition-monitor check.
type Findings struct {
	Findings []Finding `json:"findings"`
	// From is the file of a bundle that has them; "" where the node was looked at.
	From string `json:"from,omitempty"`
}

// Finding is a result of a check. Its JSON is for scripts: new versions add fields and do not
// change them.
type Finding struct {
	// Check is the name of the check. One check may find several things.
	Check string `json:"check"`
	Grade Grade  `json:"grade"`
	// Found describes the state of the node, or the problem.
	Found string `json:"found"`
	// Change is the remedy. It is empty if Found contains it, or if there is nothing to do.
	Change string `json:"change,omitempty"`
	// Docs is the page and section that explains it, for all grades but OK.
	Docs string `json:"docs,omitempty"`
	// Looked lists the files that were read or skipped, with the reason.
	Looked []kubeletconfig.Look `json:"looked,omitempty"`
}
