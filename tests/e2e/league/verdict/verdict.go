// Package verdict judges what was seen on a node in a round of the league, and makes the table of
// all rounds.
package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Seen is what onnode saw in a round.
type Seen struct {
	// Processes are those that were there before the load began.
	Processes []Process
	// Signals are all that could end a process, SIGTERM and SIGKILL, in the order of time.
	Signals []Signal
	// Kernel has the cgroup of each decision of the kernel's OOM killer, or "" where the node had no
	// free page.
	Kernel []string
	// Crossed reports whether the threshold was crossed.
	Crossed bool
	// FullPercent is the share of time in percent in which all tasks of the node waited for memory,
	// in the ten seconds before that (the kernel's Documentation/accounting/psi.rst).
	FullPercent float64
	// Alone and Beside are the neighbour's units of work in a second, before the load begins and from
	// then on.
	Alone, Beside float64
}

// Process is the first process of a container or of a service.
type Process struct {
	PID int
	// Cgroup is its path below the root of the cgroups.
	Cgroup string
	// Ended reports whether it was gone at the end of the round.
	Ended bool
}

// Signal is a signal to a process.
type Signal struct {
	// Millis is the time since the threshold was crossed. A signal before that has a negative one.
	Millis float64
	PID    int
	// From is the name of the process that caused it. For the kernel's OOM killer that is the one
	// that allocated.
	From string
}

// Line is a round, a line of the raw data.
type Line struct {
	Node, Keeper, Load string
	// Victims are the pods and services that were ended.
	Victims []Victim
	// KernelKills counts the decisions of the kernel's OOM killer at the partition's limit, and on a
	// node without a free page. The monitor's are not among them: it has the kernel kill at the limit
	// of a container.
	KernelKills int
	// Millis is the time from the threshold to the first signal to one of Seen.Processes, whoever sent
	// it. It is nil if there was none.
	Millis *float64 `json:",omitempty"`
	// From is the process that caused that signal.
	From string `json:",omitempty"`
	// Progress is the neighbour's work beside the load to its work alone.
	Progress float64
	// FullPercent is the time in which all tasks waited for memory: see Seen.
	FullPercent float64 `json:",omitempty"`
	// Silent is the time in seconds in which the node did not answer.
	Silent float64
}

// Victim is a pod or a service that was ended.
type Victim struct {
	Name string
	// Wrong is set for all but the pods that leak.
	Wrong bool `json:",omitempty"`
}

// Leaker is the beginning of the names of pods that leak. Whatever else ends is a wrong victim.
const Leaker = "leaker"

// Decide judges a round. It gets the names of pods by their UIDs.
func Decide(seen Seen, pods map[string]string) Line {
	l := Line{Victims: []Victim{}, FullPercent: seen.FullPercent}
	watched := map[int]bool{}
	for _, p := range seen.Processes {
		watched[p.PID] = true
		name, leaks := owner(p.Cgroup, pods)
		victim := Victim{Name: name, Wrong: !leaks}
		// A service may end because it has done its work.
		_, ofPod := podUID(p.Cgroup)
		ended := p.Ended && (ofPod || slices.ContainsFunc(seen.Signals, func(s Signal) bool { return s.PID == p.PID }))
		if ended && !slices.Contains(l.Victims, victim) {
			l.Victims = append(l.Victims, victim)
		}
	}
	slices.SortFunc(l.Victims, func(a, b Victim) int { return cmp.Compare(a.Name, b.Name) })
	for _, cgroup := range seen.Kernel {
		if _, ofPod := podUID(cgroup); !ofPod {
			l.KernelKills++
		}
	}
	first := slices.IndexFunc(seen.Signals, func(s Signal) bool { return watched[s.PID] })
	if first >= 0 && seen.Crossed {
		l.Millis, l.From = &seen.Signals[first].Millis, seen.Signals[first].From
	}
	if seen.Alone > 0 {
		l.Progress = seen.Beside / seen.Alone
	}
	return l
}

// Harm returns an error for each round in which a keeper has ended nobody, or others than the leak,
// or has let the kernel kill.
func Harm(all []Line, keeper string) error {
	var harm []error
	for i, l := range all {
		wrong := slices.DeleteFunc(slices.Clone(l.Victims), func(v Victim) bool { return !v.Wrong })
		if l.Keeper == keeper && (len(wrong) > 0 || len(l.Victims) == 0 || l.KernelKills > 0) {
			harm = append(harm, fmt.Errorf("round %d, load %s: %d victims, of which wrong are %+v, kernel kills %d",
				i+1, l.Load, len(l.Victims), wrong, l.KernelKills))
		}
	}
	return errors.Join(harm...)
}

// owner returns the name of the pod or the service that a cgroup belongs to, and whether it leaks.
func owner(cgroup string, pods map[string]string) (name string, leaks bool) {
	uid, ofPod := podUID(cgroup)
	if !ofPod {
		return path.Base(cgroup), false
	}
	name, known := pods[uid]
	if !known {
		return "pod " + uid, false
	}
	return name, strings.HasPrefix(name, Leaker)
}

// podUID returns the UID of the pod in whose slice a cgroup is.
func podUID(cgroup string) (uid string, ok bool) {
	for part := range strings.SplitSeq(cgroup, "/") {
		if _, rest, found := strings.Cut(part, "-pod"); found && strings.HasSuffix(rest, ".slice") {
			return strings.ReplaceAll(strings.TrimSuffix(rest, ".slice"), "_", "-"), true
		}
	}
	return "", false
}
