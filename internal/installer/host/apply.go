package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove/report"
)

// shortest is the least time for a trial: the service takes seconds to be ready.
const shortest = 20 * time.Second

// under returns the roll that is under way, which has to have reached a stage.
func (h *Host) under(o manifest.Order, stage manifest.Stage) (manifest.State, *manifest.Roll, error) {
	state, err := h.State()
	if err != nil {
		return state, nil, err
	}
	r := state.Roll
	switch {
	case r == nil && state.Last != nil && state.Last.Roll == o.Roll:
		return state, nil, outcome.Because(outcome.Reason(state.Last.Reason), "%s", state.Last.Why)
	case r == nil || r.Roll != o.Roll:
		return state, nil, fmt.Errorf("roll %s is not under way on this node", o.Roll)
	//guard: a roll goes on after a stage that has failed
	case r.Failed != "":
		return state, r, outcome.Because(outcome.Reason(r.Reason), "%s", r.Failed)
	//guard: a stage of a roll runs before the one that it needs
	case !r.Stage.Reached(stage):
		return state, r, fmt.Errorf("roll %s is at the stage %q, and this one comes after %q", o.Roll, r.Stage, stage)
	}
	return state, r, nil
}

// remaining returns the time until the node goes back.
func (h *Host) remaining(r *manifest.Roll) (time.Duration, error) {
	now, err := h.Now()
	if err != nil {
		return 0, err
	}
	if r.Deadline.Over(now) {
		return 0, nil
	}
	return r.Deadline.Since - now.Since, nil
}

// margin is the time that is left for keep when verify gives up, and for what else comes after a
// stage.
const margin = 10 * time.Second

// errTime is the cause of the end of a stage that takes too long.
var errTime = outcome.Because(outcome.Timeout, "the time of the roll is over")

// within returns a context that ends a time before the node goes back. A program that hangs would
// hold the lock, and keep the way back from the node: a runtime without a time limit for its start
// does (TimeoutStartSec=0 of crio.service).
func (h *Host) within(
	ctx context.Context, r *manifest.Roll, before time.Duration,
) (context.Context, context.CancelFunc, error) {
	left, err := h.remaining(r)
	if err != nil {
		return nil, nil, err
	}
	//guard: a stage that hangs leaves no time for what comes after it
	ctx, cancel := context.WithTimeoutCause(ctx, max(0, left-before), errTime)
	return ctx, cancel, nil
}

// apply puts the section in force: for the time of the roll, if it is a new one.
func (h *Host) apply(ctx context.Context, o manifest.Order) (done, error) {
	state, r, err := h.under(o, manifest.Installed)
	if err != nil {
		return nil, err
	}
	if r.Stage.Reached(manifest.Applied) {
		return said("the section is in force"), nil
	}
	//guard: an apply that hangs holds the lock beyond the deadline
	ctx, cancel, err := h.within(ctx, r, margin)
	if err != nil {
		return nil, err
	}
	defer cancel()
	sentences := said("the section was in force before, and stays")
	switch {
	case r.Tries:
		if sentences, err = h.try(ctx, r); err != nil {
			return nil, err
		}
	case len(r.Changes) > 0:
		// Programs that come to a node with a section: as at its boot.
		if _, err := h.systemctl(ctx, "start", "slices.target"); err != nil {
			return nil, err
		}
		if _, err := h.systemctl(ctx, "start", "--no-block", unitname.MonitorService); err != nil {
			return nil, err
		}
	}
	r.Stage = manifest.Applied
	return sentences, h.SetState(state)
}

func (h *Host) try(ctx context.Context, r *manifest.Roll) (done, error) {
	tried, err := h.Present(kubeletconfig.TrialPath)
	if err != nil {
		return nil, err
	}
	if tried.SHA256 == r.Section {
		return said("the section is tried already"), nil // by this stage, which was killed
	}
	left, err := h.remaining(r)
	if err != nil {
		return nil, err
	}
	//guard: a section is tried for less time than its service needs
	if left < shortest {
		return nil, outcome.Because(outcome.Timeout, "only %s are left of the roll on this node, and a trial takes %s or more: use a longer --trial", left, shortest)
	}
	//guard: the section of another pod is tried
	if err := h.errSection(r); err != nil {
		return nil, err
	}
	left = left.Truncate(time.Second)
	_, err = h.run(ctx, h.installed(), "try", h.onDisk(h.In(store.Section)), "--for="+left.String())
	if errors.Is(err, errTime) {
		return nil, err
	}
	if err != nil {
		return nil, outcome.Because(outcome.Section, "%w", err)
	}
	return said("the section is tried for %s", left), nil
}

// verify waits until the node is well with the section, until shortly before it goes back.
func (h *Host) verify(ctx context.Context, o manifest.Order) (done, error) {
	state, r, err := h.under(o, manifest.Applied)
	if err != nil {
		return nil, err
	}
	if r.Stage.Reached(manifest.Verified) {
		return said("the node was well with the section"), nil
	}
	ctx, cancel, err := h.within(ctx, r, margin)
	if err != nil {
		return nil, err
	}
	defer cancel()
	// The program ends first, and says what the service waits for.
	deadline, _ := ctx.Deadline()
	wait := max(time.Second, (time.Until(deadline) - 2*time.Second).Truncate(time.Second))
	if _, err := h.run(ctx, h.installed(), "status", "--wait", "--timeout="+wait.String()); err != nil {
		return nil, outcome.Because(outcome.Verify, "the partition is not active, or its service not ready: %w; journalctl -u %s has the reason", err, unitname.MonitorService)
	}
	cluster, err := h.Cluster()
	if err != nil {
		return nil, err
	}
	var why error
	for {
		last := h.unwell(ctx, cluster, o, r)
		if last == nil {
			break
		}
		// A question that the end of the time cuts off says nothing of the node: the answer before
		// does.
		//guard: a question that the timeout cuts off does not hide what was wrong with the node
		if why == nil || ctx.Err() == nil {
			why = last
		}
		if !pause(ctx) {
			return nil, outcome.Because(outcome.Verify, "when the time of the roll was nearly over: %w", why)
		}
	}
	found, err := h.check(ctx, h.installed())
	if err == nil {
		err = errorOf(found)
	}
	if err != nil {
		return nil, err
	}
	r.Stage = manifest.Verified
	return done{wellSaid(cluster, r)}, h.SetState(state)
}

// wellSaid returns what a verification has found, and what it could not ask for.
func wellSaid(cluster Cluster, r *manifest.Roll) string {
	switch {
	case cluster == nil:
		return "the partition is active and its service ready, and check finds no error; the node has no credentials for a cluster, so that Ready was not asked for"
	case r.ReadyUnknown != "":
		return "the partition is active and its service ready, the node is Ready, and check finds no error; which members were Ready before is not known: " + r.ReadyUnknown
	}
	return "the partition is active and its service ready, the node and its members are Ready, and check finds no error"
}

// unwell returns what is not well yet, nil for nothing.
func (h *Host) unwell(ctx context.Context, cluster Cluster, o manifest.Order, r *manifest.Roll) error {
	status, err := h.status(ctx, h.installed())
	switch {
	case err != nil:
		return err
	case len(status.Partitions) == 0:
		return fmt.Errorf("no partition is active: %s", status.Problem)
	case status.Service != "ready":
		return fmt.Errorf("the service is not ready: %s", status.Service)
	}
	for i := range status.Pods {
		p := &status.Pods[i]
		//guard: a pod that waits to be moved keeps no roll from its end
		if p.Reason == report.Pending || p.Reason == report.Moving {
			return fmt.Errorf("pod %s/%s waits to be moved (%s)", p.Namespace, p.Name, p.Reason)
		}
	}
	if cluster == nil {
		return nil
	}
	if why, err := cluster.NotReady(ctx, o.Node); err != nil {
		return err
	} else if why != "" {
		return fmt.Errorf("node %s is not Ready: %s", o.Node, why)
	}
	pods, err := cluster.PodsOn(ctx, o.Node)
	if err != nil {
		return err
	}
	for _, p := range pods {
		switch {
		case !slices.Contains(r.Ready, p.UID):
		//guard: a member that the roll's limit evicts is one that has ended
		case p.Failed:
			// The new limit may have cost it. Another pod in its place says nothing of the limit.
			return fmt.Errorf("pod %s/%s was Ready before the roll, and has failed: kubectl describe has the reason", p.Namespace, p.Name)
		case !p.Ready && !p.Ended:
			return fmt.Errorf("pod %s/%s was Ready before the roll, and is not now", p.Namespace, p.Name)
		}
	}
	return nil
}

// readyMembers returns the UIDs of the pods that are Ready and will be members. Members that cannot
// be asked for are not waited for.
func (h *Host) readyMembers(ctx context.Context, o manifest.Order) ([]string, error) {
	cluster, err := h.Cluster()
	if err == nil && cluster == nil {
		err = errors.New("the node had no credentials for a cluster")
	}
	if err != nil {
		return nil, err
	}
	v, err := h.validate(ctx, h.brought())
	if err != nil {
		return nil, err
	}
	pods, err := cluster.PodsOn(ctx, o.Node)
	if err != nil {
		return nil, err
	}
	var ready []string
	for _, pod := range pods {
		for _, p := range v.Partitions {
			if pod.Ready && slices.Contains(p.Namespaces, pod.Namespace) {
				ready = append(ready, pod.UID)
				break
			}
		}
	}
	return ready, nil
}

// keep makes the roll permanent, and removes the way back.
func (h *Host) keep(ctx context.Context, o manifest.Order) (done, error) {
	state, err := h.State()
	if err != nil {
		return nil, err
	}
	if state.Kept != nil && state.Kept.Roll == o.Roll && state.Roll == nil {
		return h.kept(o), h.tidy(ctx)
	}
	state, r, err := h.under(o, manifest.Verified)
	if err != nil {
		return nil, err
	}
	if r.Stage != manifest.Keeping {
		r.Stage = manifest.Keeping
		if err := h.SetState(state); err != nil {
			return nil, err
		}
	}
	if is, err := h.Present(kubeletconfig.OverridePath); err != nil {
		return nil, err
	} else if is.SHA256 != r.Section {
		if err := h.runKeep(ctx, r); err != nil {
			return nil, err
		}
	}
	return h.kept(o), h.finish(ctx, state)
}

// runKeep makes the section permanent, until the deadline: verify has left it the margin. What ends
// after the rename of the section is an error as well, and the way back finds that the roll is
// kept.
func (h *Host) runKeep(ctx context.Context, r *manifest.Roll) error {
	//guard: a keep that hangs holds the lock beyond the deadline
	ctx, cancel, err := h.within(ctx, r, 0)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = h.run(ctx, h.installed(), "keep")
	return err
}

func (h *Host) kept(o manifest.Order) done {
	return said("kept: version %s, section %s", o.Version, strings.ToLower(o.Section[:min(12, len(o.Section))]))
}

// finish notes that the roll is kept, and removes what it needed.
func (h *Host) finish(ctx context.Context, state manifest.State) error {
	is, err := h.Present(kubeletconfig.OverridePath)
	if err != nil {
		return err
	}
	r := state.Roll
	files := append(slices.Clone(r.Files), manifest.File{
		Path: kubeletconfig.OverridePath, Mode: is.Mode, SHA256: is.SHA256,
	})
	if err := h.SetState(manifest.State{Kept: &manifest.Kept{Wish: r.Wish, Files: files}}); err != nil {
		return err
	}
	return h.tidy(ctx)
}

// tidy removes what a roll needs only while it is under way.
func (h *Host) tidy(ctx context.Context) error {
	if err := h.removeWayBack(ctx); err != nil {
		return err
	}
	for _, name := range []string{store.Backups, store.Payload} {
		if err := h.RemoveTree(h.In(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{store.Section, store.Settings} {
		if err := h.Remove(h.In(name)); err != nil {
			return err
		}
	}
	return nil
}
