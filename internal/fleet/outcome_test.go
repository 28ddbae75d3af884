package fleet

import (
	"strings"
	"testing"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	failed := Job{Name: "j", Node: "a", Failed: true, Reason: "BackoffLimitExceeded", Message: "no retry"}
	late := Job{Name: "j", Node: "a", Failed: true, Reason: "DeadlineExceeded", Message: "was active too long"}
	pod := func(code int32, message string) *Pod {
		return &Pod{Container: "apply", ExitCode: code, Reason: "Error", Message: message}
	}
	for name, test := range map[string]struct {
		job    Job
		pod    *Pod
		want   string
		state  State
		reason string
		after  After
	}{
		"kept":             {Job{Node: "a", Complete: true}, nil, "a", StateKept, "", unknown},
		"failed":           {failed, pod(1, "check: not active\nmore"), "a: check: not active", StateFailed, "check", asBefore},
		"refused":          {failed, pod(3, "foreign-file: /usr/bin/x"), "a: foreign-file: /usr/bin/x", StateRefused, "foreign-file", asBefore},
		"remains":          {failed, pod(4, "error: x"), "a: error: x", StateFailed, "error", notAsBefore},
		"wrong options":    {failed, pod(2, "error: --node"), "a: error: --node", StateFailed, "error", unknown},
		"killed":           {failed, pod(137, ""), "a: error: container apply ended with exit code 137: Error", StateFailed, "error", unknown},
		"another program":  {failed, pod(1, "exec: oh: no"), "a: exec: oh: no", StateFailed, "exec", unknown},
		"a new reason":     {failed, pod(3, "no-disk: full"), "a: no-disk: full", StateRefused, "no-disk", unknown},
		"a reason too odd": {failed, pod(3, "Not A Reason: x"), "a: error: container apply ended with exit code 3: Error: Not A Reason: x", StateFailed, "error", unknown},
		"no pod":           {failed, nil, "a: error: Job j has failed: BackoffLimitExceeded: no retry", StateFailed, "error", unknown},
		"evicted":          {failed, &Pod{Waits: "its pod failed: Evicted: disk"}, "a: error: Job j has failed: BackoffLimitExceeded: no retry: its pod failed: Evicted: disk", StateFailed, "error", unknown},
		"late":             {late, nil, "a: timeout: its Job has not ended within 20m0s", StateFailed, "timeout", unknown},
		"no image": {
			late, &Pod{Waits: "container preflight waits: ImagePullBackOff: not found"},
			"a: timeout: its Job has not ended within 20m0s: container preflight waits: ImagePullBackOff: not found", StateFailed, "timeout", unknown,
		},
		"control characters": {failed, pod(1, "check: a\x1b[31mb"), "a: check: a?[31mb", StateFailed, "check", asBefore},
	} {
		got := outcome(&test.job, test.pod, "20m0s")
		if got.String() != test.want || got.State != test.state || got.Reason != test.reason || got.After != test.after {
			t.Errorf("%s: %q, %+v; want %q", name, got.String(), got, test.want)
		}
	}
	if got := outcome(&failed, pod(1, "check: "+strings.Repeat("x", 5000)), ""); len(got.Sentence) > maxSentence+3 {
		t.Errorf("a sentence of %d bytes", len(got.Sentence))
	}
}

// TestTermination: a message is as long as the kubelet takes, and says what it leaves out.
func TestTermination(t *testing.T) {
	t.Parallel()
	if got := Termination([]string{"a", "b"}); got != "a\nb\n" {
		t.Errorf("%q", got)
	}
	lines := make([]string, 100)
	for i := range lines {
		lines[i] = strings.Repeat("x", 99)
	}
	got := Termination(lines)
	if len(got) > maxTermination || !strings.HasSuffix(got, "x\nand 60 more lines: see the log\n") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-40:])
	}
}

func TestListed(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{"a, b": {"b", "a"}, "a, b and 1 other": {"c", "b", "a"}, "a, b and 2 others": {"d", "c", "b", "a"}} {
		if got := listed(names, 2); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
