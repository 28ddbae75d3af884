package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/trialend"
)

const (
	// TrialUnit is the name of the service that ends a trial, without its suffix.
	TrialUnit = "node-partition-trial"
	// TrialTimer is the name of the timer that starts TrialUnit.
	TrialTimer = TrialUnit + ".timer"
)

// TimeOfDay is the layout of times in messages.
const TimeOfDay = "2006-01-02 15:04:05 MST"

// ReadTrial returns the running trial of n, or nil without one. If the trial's description cannot
// be read, it returns a trial and an error.
func ReadTrial(n host.Node) (*state.Trial, error) {
	if _, err := n.Root.Lstat(kubeletconfig.TrialPath); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	running := &state.Trial{From: "a file"}
	if err := host.ReadState(n.Path(trialend.AboutFile), running); err != nil {
		// The removal of a package switches the partitions off by a file that says so.
		content, _ := n.Root.ReadFile(kubeletconfig.TrialPath, 1<<20)
		if first, _, _ := strings.Cut(string(content), "\n"); strings.HasPrefix(first, "#") {
			running.From = "a file that begins with " + strconv.Quote(first)
		}
		return running, fmt.Errorf("a trial is running, and its description cannot be read: %w", err)
	}
	if now, err := trialend.Now(); n.Answers() == nil && err == nil && running.End.Boot == now.Boot {
		running.Until = time.Now().Add(running.End.Since - now.Since).Round(time.Second)
	}
	return running, nil
}

// TrialOverdue reports whether a trial on the node at root should have ended a while ago.
func TrialOverdue(root host.Root) bool {
	end, _, ok := trialend.Of(string(root))
	now, err := trialend.Now()
	return ok && err == nil && isLate(end, now)
}

// isLate reports whether an end is over for longer than the timer takes, which comes first.
func isLate(end, now trialend.Moment) bool {
	const patience = 10 * time.Second
	//guard: the timer of a trial comes first
	end.Since += patience
	return end.Over(now)
}

// TrialTimerRuns reports whether systemd will end the trial, or is about to.
func TrialTimerRuns(ctx context.Context, n host.Node) (bool, error) {
	units, err := n.Systemd.Show(ctx, "ActiveState", TrialTimer, TrialUnit+".service")
	if err != nil {
		return false, err
	}
	for _, u := range units {
		if state := u["ActiveState"]; state == "active" || state == "activating" {
			return true, nil
		}
	}
	return false, nil
}
