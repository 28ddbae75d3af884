package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestTermination: the message is JSON that the rollout reads, with one line for people, and fits
// the kubelet's limit.
func TestTermination(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("node one: %w", Because(Cgroupfs, "the driver is %s", "cgroupfs"))
	for _, test := range []struct {
		outcome Outcome
		want    string
	}{
		{OutcomeOf(Refused, err, "second\nline"), `{"message":"node one: the driver is cgroupfs; second; line","reason":"cgroupfs"}`},
		{OutcomeOf(Remains, errors.New("x")), `{"message":"x","reason":"error"}`},
		{Outcome{Sentences: []string{"a", "b"}}, `{"message":"a; b","reason":""}`},
		{Outcome{Reason: Unchanged, Sentences: []string{"a"}}, `{"message":"a","reason":"unchanged"}`},
	} {
		if got := test.outcome.Termination(); got != test.want {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
	for _, text := range []string{"ä", "<", "\x01"} {
		got := Outcome{Status: Remains, Reason: Verify, Sentences: []string{strings.Repeat(text, 3000)}}.Termination()
		if len(got) > 4096 || !json.Valid([]byte(got)) {
			t.Errorf("%q: %d bytes", text, len(got))
		}
	}
}
