package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Exit codes of the dispatcher.
const (
	// CodeDone means that each node that could be reached is as the roll wants it.
	CodeDone = 0
	// CodeFailed means that nodes failed, or that some were not reached.
	CodeFailed = 1
	// CodeUsage means that the command line or a file is wrong.
	CodeUsage = 2
	// CodeRefused means that no Job was made.
	CodeRefused = 3
	// CodeInterrupted means that a signal has ended the dispatcher, as shells report SIGTERM. It
	// differs from the code of a roll that has failed, so that the dispatcher may be restarted.
	CodeInterrupted = 143
)

// maxTermination is the most that the kubelet takes of a termination message, in bytes
// (MaxContainerTerminationMessageLength, pkg/kubelet/container, v1.37.0).
const maxTermination = 4096

// Result says how a roll has ended.
type Result struct {
	Action Action
	// Done is the number of nodes that have succeeded, and Left those that did not have their turn.
	Done, Left int
	// Failures lists the nodes that failed or were refused, in the order in which they ended, and
	// Skipped those that could not have a Job, by their names.
	Failures, Skipped []Outcome
	// Gone lists the nodes that left the cluster while they had a Job.
	Gone []string
	// Stopped says why nodes are left; empty if none is.
	Stopped string
	// Yields means that the roll has ended before its time for another one.
	Yields bool
}

// Result returns how the roll stands.
func (r *Roll) Result() Result {
	result := r.result
	result.Failures = slices.Clone(result.Failures)
	result.Gone = slices.Clone(result.Gone)
	for _, m := range r.members {
		switch m.phase {
		case skipped:
			result.Skipped = append(result.Skipped, m.why)
		case waiting, blocked, running, ended:
			result.Left++
		}
	}
	slices.SortFunc(result.Skipped, func(a, b Outcome) int { return cmp.Compare(a.Node, b.Node) })
	return result
}

// Progress returns the numbers of a roll that goes on, in constant time.
func (r *Roll) Progress() string {
	over := r.counts[finished] + r.counts[ended]
	all := over + r.counts[running] + r.counts[waiting] + r.counts[blocked] + r.counts[skipped]
	return fmt.Sprintf("%d of %d ended, %d run, %d failed of %d allowed, %d skipped",
		over, all, r.counts[running], len(r.result.Failures), r.plan.Settings.MaxFailures, r.counts[skipped])
}

// Code returns the exit code.
func (r Result) Code() int {
	switch {
	case len(r.Failures) > 0:
		return CodeFailed
	case r.Action == Add && r.Yields:
		return CodeDone
	case r.Left > 0 || r.Action == Uninstall && len(r.Skipped) > 0:
		return CodeFailed
	}
	return CodeDone
}

// Lines returns the result for people: first a sentence with the numbers, then a line for each node
// that failed or that has no Job, with the reason.
func (r Result) Lines() []string {
	verb, skip := "kept the partition", "skipped"
	if r.Action == Uninstall {
		verb, skip = "have no file of it any more", "not reached"
	}
	numbers := []string{count(r.Done, "node") + " " + verb}
	for _, n := range []struct {
		number int
		what   string
	}{{len(r.Failures), "failed"}, {len(r.Skipped), skip}, {r.Left, "not begun"}, {len(r.Gone), "left the cluster"}} {
		if n.number > 0 {
			numbers = append(numbers, fmt.Sprintf("%d %s", n.number, n.what))
		}
	}
	first := strings.Join(numbers, ", ")
	if r.Stopped != "" {
		first += ". No further Job was made: " + r.Stopped
	}
	lines := make([]string, 0, 1+len(r.Failures)+len(r.Skipped)+len(r.Gone))
	lines = append(lines, first)
	for _, f := range r.Failures {
		how := "failed: "
		switch {
		case f.State == StateRefused && f.After == asBefore:
			how = "refused, and nothing was written: "
		case f.State == StateRefused:
			how = "refused: "
		case f.After == notAsBefore:
			how = "failed, and is not as before: "
		case f.After == asBefore:
			how = "failed, and is as before: "
		}
		lines = append(lines, how+f.String())
	}
	for _, s := range r.Skipped {
		lines = append(lines, skip+": "+s.String())
	}
	for _, name := range r.Gone {
		lines = append(lines, "left the cluster: "+name)
	}
	return lines
}

// Termination returns the lines as a termination message. It leaves out the last ones if they are
// too long, and says how many.
func Termination(lines []string) string {
	const more = "and %d more lines: see the log\n"
	var text strings.Builder
	for i, line := range lines {
		if text.Len()+len(line)+1 > maxTermination-len(more)-10 {
			fmt.Fprintf(&text, more, len(lines)-i)
			break
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// count returns "1 node" or "2 nodes".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// listed lists names for a message, sorted: the first ones, and the number of the rest.
func listed(names []string, most int) string {
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + count(len(names)-most, "other")
}
