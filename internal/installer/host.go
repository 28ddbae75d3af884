package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/trialend"
)

// Runner runs programs of the host.
type Runner interface {
	// Run runs a program until it ends, and returns its standard output. Another exit status than 0
	// is an error, with what the program has said.
	Run(ctx context.Context, name string, args ...string) (string, error)
}

// Cluster asks the API server as the kubelet of this node.
type Cluster interface {
	// NotReady returns why a node is not Ready, empty if it is.
	NotReady(ctx context.Context, node string) (string, error)
	PodsOn(ctx context.Context, node string) ([]kubeapi.PodState, error)
}

// Host is the node that is changed.
type Host struct {
	Store
	// Payload has the files to install, which are a part of this program, and Version is theirs.
	Payload fs.FS
	Version string
	// Programs runs programs.
	Programs Runner
	// Cluster returns the cluster, nil if the node has no credentials for one.
	Cluster func() (Cluster, error)
	// Now returns the time by a clock that is never set.
	Now func() (trialend.Moment, error)
	// Label returns the label of a file of SELinux.
	Label func(path string) (string, error)
	// Say notes progress for the journal.
	Say func(format string, args ...any)
}

// Do does what a call asks for. A change that fails after something was written has gone back
// before Do returns.
func (h *Host) Do(ctx context.Context, id string, o record.Order) record.Outcome {
	unlock, err := h.Lock(ctx)
	if err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	defer unlock()
	if err := h.Forget(id); err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	result := h.do(ctx, id, o)
	state, err := h.State()
	if err == nil {
		err = h.Clean(state)
	}
	if err != nil {
		result.Sentences = append(result.Sentences, fmt.Sprintf("the installer's folder could not be emptied: %v", err))
	}
	return result
}

func (h *Host) do(ctx context.Context, id string, o record.Order) record.Outcome {
	if o.Action != record.Survey {
		if err := h.endEarlier(ctx); err != nil {
			return record.OutcomeOf(record.Remains, fmt.Errorf("what an earlier call has left: %w", err))
		}
	}
	state, err := h.State()
	if err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	if o.Action == record.Remove {
		return h.remove(ctx, state)
	}
	p, err := h.plan(ctx, state, id, o)
	if err == nil && p.nothing() {
		return record.Outcome{Reason: record.Unchanged, Sentences: []string{
			fmt.Sprintf("nothing to do: version %s and this section are kept on the node", h.Version),
		}}
	}
	if err == nil {
		err = h.judge(ctx, p, o)
	}
	if err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	if o.Action == record.Survey {
		return record.Outcome{Sentences: []string{fmt.Sprintf("this node can have version %s and the section", h.Version)}}
	}
	return h.apply(ctx, state, p, o)
}

// endEarlier ends what a call that was killed has left: a change goes back, or is kept if its
// section was made permanent, and a removal is finished.
func (h *Host) endEarlier(ctx context.Context) error {
	state, err := h.State()
	if err == nil {
		state, err = h.endKilled(ctx, state)
	}
	if err != nil {
		return err
	}
	if h.isOurOff() && state.Kept != nil {
		if o := h.remove(ctx, state); o.Status != record.Done {
			return errors.New(o.Text())
		}
	}
	return nil
}

// endKilled ends the change that state has, or tidies up after one that was killed before its end.
// It returns the state after that.
func (h *Host) endKilled(ctx context.Context, state record.State) (record.State, error) {
	end := h.tidy
	if state.Rollout != nil {
		end = func(ctx context.Context) error { return h.endRollout(ctx, state) }
	}
	if err := end(ctx); err != nil {
		return state, err
	}
	return h.State()
}

// pauseBetweenLooks is the time between two looks at something that systemd, or the cluster, does
// not report by itself.
const pauseBetweenLooks = time.Second

// pause waits between two looks. It reports false when ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(pauseBetweenLooks):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
