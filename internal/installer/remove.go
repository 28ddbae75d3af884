package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
)

// remove switches the partitions off, and removes what this installer has on the node. It may be
// killed at each point, and called again.
func (h *Host) remove(ctx context.Context, state record.State) record.Outcome {
	owned := h.owner(ctx)
	if state.Kept == nil {
		if owned != nil {
			state.Before = nil // the files are somebody else's by now
		}
		return h.nothingToRemove(ctx, state)
	}
	//guard: a removal takes away the partition of a package
	if owned != nil {
		return record.OutcomeOf(record.Refused, fmt.Errorf("somebody else has installed the programs since: %w", owned))
	}
	sentences, err := h.takeOff(ctx, state.Kept)
	if err == nil {
		err = h.tidy(ctx)
	}
	if err == nil {
		err = h.SetState(record.State{})
	}
	if err != nil {
		return record.OutcomeOf(record.Remains, err, "the removal has not ended: run it again")
	}
	return record.Outcome{Sentences: append([]string{"removed: the partition is off, and the files are gone"}, sentences...)}
}

// nothingToRemove tidies up on a node without an installation. What is not as before a change that
// went back is said each time, and only a file makes it an error: pods that stay in a slice may do
// so after every removal.
func (h *Host) nothingToRemove(ctx context.Context, state record.State) record.Outcome {
	var files, rest, remains []string
	err := h.tidy(ctx)
	if err == nil && state.Before != nil {
		files, rest, err = h.remains(ctx, state.Before)
	}
	//guard: a removal forgets what an earlier change has left
	if len(files)+len(rest) > 0 {
		remains = slices.Concat([]string{notAsBefore}, files, rest)
	} else {
		state.Before = nil
	}
	if err == nil {
		err = h.SetState(state)
	}
	const nothing = "this installer has nothing on the node"
	switch {
	case err != nil:
		return record.OutcomeOf(record.Remains, err)
	case len(files) > 0:
		return record.OutcomeOf(record.Remains, errors.New(nothing), remains...)
	}
	return record.Outcome{Reason: record.Unchanged, Sentences: append([]string{"nothing to do: " + nothing}, remains...)}
}

func (h *Host) takeOff(ctx context.Context, kept *record.Kept) (sentences []string, err error) {
	if err := h.switchOff(ctx); err != nil {
		return nil, err
	}
	sentences = h.staying(ctx)
	is, err := h.Present(kubeletconfig.OverridePath)
	switch {
	case err != nil:
		return nil, err
	//guard: a removal leaves a section that the node had before
	case is.SHA256 == kept.Section && !kept.Found:
		err = h.Remove(kubeletconfig.OverridePath)
	//guard: a removal takes away a section that was edited
	case is.Exists:
		sentences = append(sentences, kubeletconfig.OverridePath+" stays: this installer has not written it as it is")
	}
	if err != nil {
		return nil, err
	}
	usr, etc := layouts()
	for _, l := range []layout{usr, etc} {
		if err := h.unlink(l, nil); err != nil {
			return nil, err
		}
		if err := h.Remove(l.current()); err != nil {
			return nil, err
		}
		for _, k := range l.links {
			if _, err := h.Root.Lstat(k.path); err == nil {
				sentences = append(sentences, k.path+" stays: somebody has replaced it")
			}
		}
	}
	if err := h.dropTrial(); err != nil {
		return nil, err
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return nil, err
	}
	return sentences, h.clearUp(ctx, nil)
}

// staying has a sentence for the pods that stay in slices of partitions.
func (h *Host) staying(ctx context.Context) []string {
	n := h.pods(h.slices(kubepods))
	if n == 0 {
		return nil
	}
	texts := []string{fmt.Sprintf("pods that stay in the slice of a partition, without its limit, until they start again: %d", n)}
	status, err := h.status(ctx, h.monitor(h.has()))
	if err != nil {
		return texts
	}
	for i := range status.Pods {
		if p := &status.Pods[i]; p.Misplaced > 0 {
			texts = append(texts, fmt.Sprintf("pod %s/%s stays (%s)", p.Namespace, p.Name, p.Reason))
		}
	}
	return texts
}
