package node

import (
	"errors"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Desired is the configuration in the files, for commands that judge it.
type Desired struct {
	*config.Config
	// Deferrals holds, by partition, the limits that the generator has not applied for now.
	Deferrals map[partition.Name]*decision.Deferral
	// NotApplied is why the generator's decision is not about these files, nil if it is.
	NotApplied error
}

// ErrNotApplied means that the files were changed since the generator has decided.
var ErrNotApplied = errors.New("the configuration was changed and is not applied yet: systemctl daemon-reload")

// ReadDesired reads the configuration in the files as the generator does, and compares it with the
// generator's decision. Unlike the generator, which runs before the kubelet, it sees the kubelet's
// command line.
func ReadDesired(node host.Node) (*Desired, error) {
	c, err := config.Load(string(node.Root))
	if missing := missingFacts(node); err != nil && missing != nil {
		err = missing
	}
	desired := NewDesired(node, c)
	if err != nil && desired.ManagedByKubelet != "" && !desired.AsksOthers() {
		err = nil // what is invalid is the kubelet's business
	}
	decided, readErr := read(node)
	switch {
	case errors.Is(readErr, decision.ErrNone) && (node.Foreign || len(desired.Partitions) == 0 && !AnyActive(node)):
	case readErr != nil:
		desired.NotApplied = readErr
	//guard: a limit that waits is that of the configuration that was decided
	case err == nil && !desired.Off && decided.Identity != desired.Identity():
		desired.NotApplied = ErrNotApplied
	case err == nil:
		desired.defers(decided)
	}
	return desired, err
}

// NewDesired returns the desired state of a configuration that config.Load or config.LoadWith has
// returned.
func NewDesired(node host.Node, c *config.Config) *Desired {
	d := &Desired{Config: c}
	if why := runningYields(node); why != "" {
		d.LeaveToKubelet(why)
	}
	return d
}

// defers adds the limits that wait by the decision about the files.
func (d *Desired) defers(decided *decision.Decision) {
	d.Deferrals = map[partition.Name]*decision.Deferral{}
	for i := range decided.Partitions {
		if p := &decided.Partitions[i]; p.Deferral != nil {
			d.Deferrals[p.Name] = p.Deferral
			d.Warnings = append(d.Warnings, p.Deferral.Warning)
		}
	}
}
