package web

import (
	"fmt"
	"strings"

	"nodepartition/pkg/evict"
)

// level is the urgency of a finding. A class of page.css has its name.
type level string

const (
	good    level = "good"
	warning level = "warning"
	bad     level = "bad"
)

// Word returns the level for those who do not see its colour.
func (l level) Word() string {
	return map[level]string{good: "OK", warning: "Attention", bad: "Problem"}[l]
}

// verdict is the state of the node in a sentence.
type verdict struct {
	Level level
	// Text is the worst finding, and More lists the others.
	Text string
	More []finding
}

// finding is something that an operator should know.
type finding struct {
	Level level
	Text  string
}

// judge returns the verdict. alive and ready are the problems of the service, one a line.
func judge(v view, alive, ready error) verdict {
	var found []finding
	add := func(l level, format string, args ...any) {
		found = append(found, finding{l, fmt.Sprintf(format, args...)})
	}
	for _, line := range lines(alive) {
		add(bad, "Part of the program hangs: %s", line)
	}
	misplaced := 0
	for i := range v.Partitions {
		p := &v.Partitions[i]
		misplaced += p.Misplaced.Len()
		switch {
		case p.Problem != "":
			add(warning, "Partition %s: %s", p.Name, p.Problem)
		default:
			found = append(found, short(p)...)
		}
	}
	if len(v.Partitions) == 0 {
		add(bad, "There is no partition on this node.")
	}
	for _, line := range lines(ready) {
		add(warning, "Not ready: %s", line)
	}
	// Without the others a node may work as it should: kubelets have no Pods API by default, and
	// runtimes may not serve NRI.
	for _, s := range v.Sources {
		if !s.Connected && (s.Name == "systemd" || s.Name == "runtime") {
			add(warning, "No connection to %s. %s", s.Name, s.Missing)
		}
	}
	switch {
	case v.Pass.IsZero():
		add(warning, "The first pass over the pods has not ended.")
	case misplaced == 1:
		add(warning, "1 pod is not where it belongs.")
	case misplaced > 1:
		add(warning, "%d pods are not where they belong.", misplaced)
	}
	return conclude(found)
}

// conclude puts the worst finding first.
func conclude(found []finding) verdict {
	for _, l := range []level{bad, warning} {
		for i, f := range found {
			if f.Level == l {
				return verdict{l, f.Text, append(found[:i:i], found[i+1:]...)}
			}
		}
	}
	return verdict{Level: good, Text: "All pods are in their place, and no partition is short of memory."}
}

// short returns what there is to say of the memory of a partition.
func short(p *partitionView) []finding {
	m := &p.Memory
	switch {
	case m.Held == evict.HoldStays:
		return []finding{{bad, fmt.Sprintf(
			"Partition %s is short of memory that ending processes does not free, and no other pod is evicted for it.", p.Name,
		)}}
	case m.NoCandidate:
		return []finding{{bad, fmt.Sprintf(
			"Partition %s is short of memory, and no pod of it can be evicted: the kernel will kill at the limit.", p.Name,
		)}}
	case m.State == bad:
		return []finding{{bad, fmt.Sprintf("Partition %s is short of memory: %s.", p.Name, m.Margin)}}
	case m.State == warning:
		return []finding{{warning, fmt.Sprintf("Partition %s is nearly full: %s.", p.Name, m.Margin)}}
	}
	return nil
}

// stateOf returns how short of memory a partition is. It is nearly full where the alert
// NodePartitionLowMargin fires.
func stateOf(m memoryView) level {
	nearest := m.Nearest()
	switch {
	case m.Crossed != "" || m.Margin != "" && m.Available < nearest:
		return bad
	case m.Margin != "" && m.Available-nearest < min(nearest, m.Limit/20):
		return warning
	}
	return good
}

// lines returns the lines of an error, none of nil.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(err.Error()) {
		if line = clean(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}
