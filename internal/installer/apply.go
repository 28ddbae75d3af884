package installer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// shortest is the least time for a trial: the service takes seconds to be ready.
const shortest = 20 * time.Second

// remaining returns the time until the node goes back.
func (h *Host) remaining(r *record.Rollout) (time.Duration, error) {
	now, err := h.Now()
	if err != nil {
		return 0, err
	}
	if r.Deadline.Over(now) {
		return 0, nil
	}
	return r.Deadline.Since - now.Since, nil
}

// margin is the time that is left for keep when verify gives up.
const margin = 10 * time.Second

// errTime is the cause of the end of a change that takes too long.
var errTime = record.Because(record.Timeout, "the time of the trial is over")

// within returns a context that ends a time before the node goes back. A program that hangs would
// hold the lock, and keep the rollback from the node: a runtime without a time limit for its start
// does (TimeoutStartSec=0 of crio.service).
func (h *Host) within(
	ctx context.Context, r *record.Rollout, before time.Duration,
) (context.Context, context.CancelFunc, error) {
	left, err := h.remaining(r)
	if err != nil {
		return nil, nil, err
	}
	//guard: a change that hangs leaves no time for what comes after it
	ctx, cancel := context.WithTimeoutCause(ctx, max(0, left-before), errTime)
	return ctx, cancel, nil
}

// apply makes the changes of a plan. It goes back if one fails.
func (h *Host) apply(ctx context.Context, state record.State, p *plan, o record.Order) record.Outcome {
	if err := h.begin(ctx, &state, p, o); err != nil {
		return record.OutcomeOf(record.Refused, err)
	}
	well, err := h.change(ctx, state, p, o)
	if err == nil {
		err = h.keep(ctx, state)
	}
	if err == nil {
		err = h.finish(ctx, state)
	}
	if err != nil {
		return h.fail(ctx, p.By, err)
	}
	return record.Outcome{Sentences: []string{
		fmt.Sprintf("kept: version %s, section %s", p.Version, p.Section[:12]), well,
	}}
}

// begin notes the change before anything of the node is changed.
func (h *Host) begin(ctx context.Context, state *record.State, p *plan, o record.Order) error {
	r := &p.Rollout
	var err error
	if r.Deadline, err = h.Now(); err != nil {
		return err
	}
	r.Deadline.Since += o.Trial
	if r.Before, err = h.snapshot(ctx, p.layout); err != nil {
		return err
	}
	if r.Ready, err = h.readyMembers(ctx, o); err != nil {
		h.Say("which members are Ready is not known: %v", err)
		r.ReadyUnknown = text.Terminal(err.Error())
	}
	state.Rollout = r
	return h.SetState(*state)
}

// change installs the files, puts the section in force for the time of the trial, and waits until
// the node is well. It ends while there is time to keep it.
func (h *Host) change(ctx context.Context, state record.State, p *plan, o record.Order) (string, error) {
	//guard: a change that hangs holds the lock beyond the deadline
	ctx, cancel, err := h.within(ctx, state.Rollout, margin)
	if err != nil {
		return "", err
	}
	defer cancel()
	if err := h.prepareRollback(ctx, state.Rollout); err != nil {
		return "", fmt.Errorf("the rollback: %w", err)
	}
	h.Say("installing version %s", p.Version)
	if err := h.install(ctx, p); err != nil {
		return "", err
	}
	if p.Tries {
		h.Say("trying section %s", p.Section[:12])
		err = h.try(ctx, p)
	} else {
		// Programs that come to a node with a section: as at its boot. A slice that is active starts none
		// of the units that it wants.
		if _, err = h.systemctl(ctx, "start", "slices.target"); err == nil {
			h.attempt(ctx, "start", "--no-block", "partition-generator-apply.path")
			_, err = h.systemctl(ctx, "start", "--no-block", partition.MonitorService)
		}
	}
	if err != nil {
		return "", err
	}
	return h.verify(ctx, p, o)
}

// install puts the files in their places, and makes systemd use them, as a package does after an
// upgrade.
func (h *Host) install(ctx context.Context, p *plan) error {
	if p.From == p.To && len(p.missing) == 0 {
		return nil
	}
	if p.From != p.To {
		if err := h.write(ctx, p.layout, p.content); err != nil {
			return err
		}
		if err := h.Link(p.To, p.layout.current()); err != nil {
			return err
		}
	}
	for _, k := range p.missing {
		if err := h.Mkdir(path.Dir(k.path), 0o755); err != nil {
			return err
		}
		if err := h.Link(p.layout.target(k), k.path); err != nil {
			return err
		}
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := h.systemctl(ctx, "try-restart", partition.MonitorService); err != nil {
		return record.Because(record.Verify, "%s does not start with the new files: %w; journalctl -u %[1]s has the reason",
			partition.MonitorService, err)
	}
	return nil
}

func (h *Host) try(ctx context.Context, p *plan) error {
	left, err := h.remaining(&p.Rollout)
	if err != nil {
		return err
	}
	//guard: a section is tried for less time than its service needs
	if left < shortest {
		return record.Because(record.Timeout, "only %s are left, and a trial takes %s or more: use a longer --trial", left, shortest)
	}
	_, err = h.Programs.Run(ctx, h.monitor(p.layout),
		"try", h.onDisk(h.In(Section)), "--for="+left.Truncate(time.Second).String())
	if err != nil && ctx.Err() == nil {
		err = record.Because(record.Section, "%w", err)
	}
	return err
}

// verify waits until the node is well with the section, and says what it has seen.
func (h *Host) verify(ctx context.Context, p *plan, o record.Order) (string, error) {
	cluster, err := h.Cluster()
	if err != nil {
		return "", err
	}
	var why error
	said := ""
	for {
		last := h.unwell(ctx, cluster, p, o)
		if last == nil {
			break
		}
		if left, err := h.remaining(&p.Rollout); err == nil && last.Error() != said {
			said = last.Error()
			h.Say("not well yet, and the node goes back in %s at most: %s", left.Round(time.Second), said)
		}
		// A question that the end of the time cuts off says nothing of the node: the answer before
		// does.
		//guard: a question that the timeout cuts off does not hide what was wrong with the node
		if why == nil || ctx.Err() == nil {
			why = last
		}
		if pause(ctx) {
			continue
		}
		// The first answer was cut off: nothing is known of the node.
		if errors.Is(why, context.Cause(ctx)) {
			return "", fmt.Errorf("%w, before anything was seen to be wrong: try again, with a longer trial", why)
		}
		return "", record.Because(record.Verify, "%w: %w", context.Cause(ctx), why)
	}
	found, err := h.check(ctx, h.monitor(p.layout))
	if err == nil {
		err = errorOf(found)
	}
	return wellReported(cluster, &p.Rollout), err
}

// wellReported returns what a verification has found, and what it could not ask for.
func wellReported(cluster Cluster, r *record.Rollout) string {
	switch {
	case cluster == nil:
		return "the partition is active and its service ready, and check finds no error; the node has no credentials for a cluster, so that Ready was not checked"
	case r.ReadyUnknown != "":
		return "the partition is active and its service ready, the node is Ready, and check finds no error; which members were Ready before is not known: " + r.ReadyUnknown
	}
	return "the partition is active and its service ready, the node and its members are Ready, and check finds no error"
}

// unwell returns what is not well yet, nil for nothing.
func (h *Host) unwell(ctx context.Context, cluster Cluster, p *plan, o record.Order) error {
	status, err := h.status(ctx, h.monitor(p.layout))
	switch {
	case err != nil:
		return err
	case len(status.Partitions) == 0:
		return fmt.Errorf("no partition is active: %s", status.Problem)
	case status.Service != "ready":
		return fmt.Errorf("the service is not ready: %s; journalctl -u %s has the reason", status.Service, partition.MonitorService)
	}
	waiting := slices.DeleteFunc(status.Pods, func(pod report.Pod) bool {
		return pod.Reason != report.Pending && pod.Reason != report.Moving
	})
	//guard: a pod that waits to be moved keeps no roll from its end
	if len(waiting) > 0 {
		pod := &waiting[0]
		return fmt.Errorf("pod %s/%s waits to be moved (%s), and %d more", pod.Namespace, pod.Name, pod.Reason, len(waiting)-1)
	}
	for _, one := range status.Partitions {
		if one.Eviction == nil {
			continue
		}
		for _, e := range slices.Concat(one.Eviction.Open, one.Eviction.Last) {
			// Its controller deletes the pod within a second, and nothing in the cluster shows it any more.
			//guard: a limit that evicts a member is not kept
			//guard: an eviction under the former limit says nothing of the new one
			if e.Method == evict.Evict && !e.DryRun && e.Time.After(p.begun) && slices.Contains(p.Ready, e.UID) {
				return fmt.Errorf("pod %s/%s was Ready before, and partition %s has evicted it", e.Namespace, e.Name, one.Name)
			}
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
	for _, pod := range pods {
		switch {
		case !slices.Contains(p.Ready, pod.UID):
		//guard: a member that the roll's limit evicts is one that has ended
		case pod.Failed:
			// The new limit may have cost it. Another pod in its place says nothing of the limit.
			return fmt.Errorf("pod %s/%s was Ready before, and has failed: kubectl describe has the reason", pod.Namespace, pod.Name)
		case !pod.Ready && !pod.Ended:
			return fmt.Errorf("pod %s/%s was Ready before, and is not now", pod.Namespace, pod.Name)
		}
	}
	return nil
}

// readyMembers returns the UIDs of the pods that are Ready and will be members. Members that cannot
// be asked for are not waited for.
func (h *Host) readyMembers(ctx context.Context, o record.Order) ([]string, error) {
	cluster, err := h.Cluster()
	if err == nil && cluster == nil {
		err = errors.New("the node had no credentials for a cluster")
	}
	if err != nil {
		return nil, err
	}
	v, err := h.validate(ctx, h.onDisk(h.In(Monitor)))
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

// keep makes the section permanent, until the deadline: change has left it the margin. The rename
// of the section decides: what ends after it is an error as well, and fail finds that all is kept.
func (h *Host) keep(ctx context.Context, state record.State) error {
	r := state.Rollout
	if !r.Tries {
		return nil
	}
	//guard: a keep that hangs holds the lock beyond the deadline
	ctx, cancel, err := h.within(ctx, r, 0)
	if err != nil {
		return err
	}
	defer cancel()
	r.Keeping = true
	if err := h.SetState(state); err != nil {
		return err
	}
	_, err = h.Programs.Run(ctx, h.monitor(h.has()), "keep")
	return err
}

// finish notes that the change is kept, and removes what it needed.
func (h *Host) finish(ctx context.Context, state record.State) error {
	kept := state.Rollout.Kept
	if err := h.SetState(record.State{Kept: &kept}); err != nil {
		return err
	}
	return h.tidy(ctx)
}

// tidy removes what a change needs only while it is under way. The rollback is the last: it does
// the rest of a tidy that was killed.
func (h *Host) tidy(ctx context.Context) error {
	if err := h.prune(); err != nil {
		return err
	}
	return h.removeRollback(ctx)
}

// fail has the node go back from a change that has failed.
func (h *Host) fail(ctx context.Context, id string, cause error) record.Outcome {
	// Who has called may have given up. The node goes back all the same.
	ctx = context.WithoutCancel(ctx)
	state, err := h.State()
	if err == nil && state.Rollout != nil {
		h.Say("%v: going back", cause)
		state, err = h.endKilled(ctx, state)
	}
	var files, rest []string
	if err == nil && state.Before != nil {
		files, rest, err = h.remains(ctx, state.Before)
	}
	switch {
	case err != nil:
		return record.OutcomeOf(record.Remains, cause, fmt.Sprintf(
			"the node is not as before: the rollback has not ended (%v), and is tried again; journalctl -u %s on the node has the reason", err, backService,
		))
	case state.Kept != nil && state.Kept.By == id:
		return record.Outcome{Sentences: []string{
			"kept: the section was made permanent before this failed", cause.Error(),
		}}
	//guard: the installer does not say that a node is as before when it is not
	case len(files)+len(rest) > 0:
		return record.OutcomeOf(record.Remains, cause, slices.Concat([]string{notAsBefore}, files, rest)...)
	}
	return record.OutcomeOf(record.WentBack, cause, record.AsBefore)
}
