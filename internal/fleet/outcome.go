package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"nodepartition/internal/nodelabel"
	"nodepartition/internal/oneline"
)

// Exit codes of the program in the Jobs. No other one says anything about the node.
const (
	exitAsBefore = 1 // it has failed, and the node is as before
	exitRefused  = 3 // nothing was written
	exitRemains  = 4 // the node is not as before
)

// Reasons that the dispatcher gives itself. The programs on the node have more.
const (
	reasonTimeout  = "timeout"
	reasonError    = "error"
	reasonNotReady = "not-ready"
)

// programReasons lists the reasons of the programs on the node. Only with one of them does an exit
// code say how the node is now.
var programReasons = []string{
	"cgroup-v1", "cgroupfs", "foreign-file", "read-only-usr", "selinux", "no-bus", "kubelet-gate",
	"check", "section", "verify", reasonTimeout, reasonError,
}

// maxSentence bounds the text about one node in messages, in bytes.
const maxSentence = 300

// Outcome says how a Job has ended.
type Outcome struct {
	Node  string
	State State
	// Reason is one word, fit for a label, and Sentence says what happened. Both are empty for what
	// has succeeded.
	Reason, Sentence string
	// After says what the program on the node says of the node; unknown if it says nothing.
	After After
}

// After says how a node is after a failure.
type After int

// The ways in which a failure leaves a node.
const (
	unknown After = iota
	asBefore
	notAsBefore
)

// String returns "NODE: REASON: SENTENCE".
func (o Outcome) String() string {
	parts := []string{o.Node, o.Reason, o.Sentence}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ": ")
}

// outcome returns how a Job has ended. pod is the last that is known of its pod, nil if none is.
// limit is the time that the Job had.
func outcome(j *Job, pod *Pod, limit string) Outcome {
	o := Outcome{Node: j.Node, State: StateFailed}
	switch {
	case j.Complete:
		o.State = StateKept
	case pod != nil && pod.Container != "":
		var says bool
		if o.Reason, o.Sentence, says = said(pod); says {
			o.State, o.After = stateOf(pod.ExitCode)
		}
		//guard: the text of another program does not say that a node is as before
		if !slices.Contains(programReasons, o.Reason) {
			o.After = unknown // the message may be another program's
		}
	case j.Reason == deadlineExceeded:
		o.Reason, o.Sentence = reasonTimeout, "its Job has not ended within "+limit
		if pod != nil && pod.Waits != "" {
			o.Sentence += ": " + pod.Waits
		}
	default:
		o.Reason, o.Sentence = reasonError, fmt.Sprintf("Job %s has failed: %s: %s", j.Name, j.Reason, j.Message)
		if pod != nil && pod.Waits != "" {
			o.Sentence += ": " + pod.Waits
		}
	}
	o.Sentence = oneline.Record(o.Sentence, maxSentence)
	return o
}

// deadlineExceeded is the reason of a Job that has not ended within activeDeadlineSeconds
// (JobReasonDeadlineExceeded, k8s.io/api/batch/v1).
const deadlineExceeded = "DeadlineExceeded"

func stateOf(code int32) (State, After) {
	switch code {
	case exitAsBefore:
		return StateFailed, asBefore
	case exitRefused:
		return StateRefused, asBefore
	case exitRemains:
		return StateFailed, notAsBefore
	}
	return StateFailed, unknown
}

// said returns what a container that has failed says: "REASON: SENTENCE" in its termination
// message. Without such a message, says is false, and its exit code may come from anything.
func said(pod *Pod) (reason, sentence string, says bool) {
	line, _, _ := strings.Cut(strings.TrimSpace(pod.Message), "\n")
	if word, rest, ok := strings.Cut(line, ": "); ok && isReason(word) {
		return word, rest, true
	}
	sentence = fmt.Sprintf("container %s ended with exit code %d", pod.Container, pod.ExitCode)
	for _, more := range []string{pod.Reason, line} {
		if more != "" {
			sentence += ": " + more
		}
	}
	return reasonError, sentence, false
}

// isReason reports whether a word may be the value of ReasonLabel: a text that somebody else wrote
// must not make a patch that the API server refuses.
func isReason(word string) bool {
	//guard: a message does not make a label that the API server refuses
	return word != "" && word == strings.ToLower(word) && len(validation.IsDNS1123Label(word)) == 0
}

// labels returns what the labels of the node are to be after an outcome: nil removes one. A node
// that has failed or was refused keeps version and section, which it still has.
func (o Outcome) labels(j *Job) map[string]*string {
	state, reason := string(o.State), o.Reason
	switch {
	case o.State != StateKept:
		return map[string]*string{StateLabel: &state, ReasonLabel: &reason}
	case j.Action == Uninstall:
		return map[string]*string{nodelabel.Version: nil, nodelabel.Section: nil, StateLabel: nil, ReasonLabel: nil}
	}
	//guard: a version that a label cannot have does not make one that the API server refuses
	version := nodelabel.VersionValue(j.Version)
	return map[string]*string{
		nodelabel.Version: &version, nodelabel.Section: &j.Section, StateLabel: &state, ReasonLabel: nil,
	}
}

// has reports whether a node has these labels already.
func (n *Node) has(labels map[string]*string) bool {
	for label, want := range labels {
		got, has := n.Labels[label]
		if has != (want != nil) || has && got != *want {
			return false
		}
	}
	return true
}
