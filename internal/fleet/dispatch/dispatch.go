// Package dispatch carries out the steps of a roll: it makes Jobs, follows them by watches, and
// writes the labels of nodes. It acts only while it has the lock. No outage of the API server ends
// it, and another process continues where it was killed.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"nodepartition/internal/fleet"
	"nodepartition/internal/fleet/cluster"
)

// Options holds what a dispatcher is given.
type Options struct {
	Client *cluster.Client
	// Claim says for which roll it takes the lock, and Plan what that does.
	Claim    fleet.Claim
	Plan     fleet.Plan
	Template fleet.Template
	// Holder identifies this process among all that have ever been.
	Holder string
	// Say is called with what happens, a line each time.
	Say func(string)
}

// Report says how a dispatcher has ended.
type Report struct {
	// Code is the exit code.
	Code int
	// Lines are for people: the sum, then each node about which there is something to say.
	Lines []string
}

// dispatcher is a run of the program.
type dispatcher struct {
	Options
	away  outage
	jobs  bool // a Job of this roll exists
	owner fleet.Owner
}

// Run rolls. It returns when the roll has come to its end, was stopped by failures, may not begin,
// or when ctx ends.
func Run(ctx context.Context, o Options) Report {
	d := &dispatcher{Options: o}
	d.away.say = o.Say
	for {
		report, err := d.turn(ctx)
		switch {
		case err == nil:
			return *report
		case errors.Is(err, errLost):
			d.Say("another dispatcher has taken the lock: waits until it is free, and goes on from what is done then")
		case ctx.Err() != nil:
			return Report{
				Code:  fleet.CodeInterrupted,
				Lines: []string{"interrupted: Jobs that run go on. Started again, the dispatcher continues from them"},
			}
		default:
			return *d.refused(err.Error())
		}
	}
}

// refused returns the report of a roll that cannot go on.
func (d *dispatcher) refused(why string) *Report {
	if d.jobs {
		return &Report{Code: fleet.CodeFailed, Lines: []string{"stopped before the end: " + why}}
	}
	return &Report{Code: fleet.CodeRefused, Lines: []string{"refused, and no Job was made: " + why}}
}

// until repeats a request until the API server answers.
func (d *dispatcher) until(ctx context.Context, request func() error) error {
	var retry backoff
	for {
		err := request()
		if !errors.Is(err, cluster.ErrAway) {
			if err == nil {
				d.away.ended()
			}
			return err
		}
		d.away.began(err)
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// turn rolls for as long as this process has the lock.
func (d *dispatcher) turn(ctx context.Context) (*Report, error) {
	l, report, err := d.acquire(ctx)
	if l == nil {
		return report, err
	}
	d.Plan.Continued = l.continues
	report, end, err := d.locked(ctx, l)
	if errors.Is(err, errLost) {
		return nil, err
	}
	if problem := l.release(ctx, end); problem != nil {
		line := fmt.Sprintf("the lock is not released, and another dispatcher may take it after %s: %v", fleet.LeaseFor, problem)
		if report == nil {
			d.Say(line) // err follows
			return nil, err
		}
		report.Lines = append(report.Lines, line)
		if report.Code == fleet.CodeDone {
			report.Code = fleet.CodeFailed
		}
	}
	return report, err
}

// locked rolls with the lock, which it renews meanwhile.
func (d *dispatcher) locked(ctx context.Context, l *lock) (*Report, fleet.Ended, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	group.Go(func() { cancel(l.keep(ctx)) })

	roll, refusal, err := d.begin(ctx, &group, cancel)
	if err == nil && refusal == "" {
		err = roll.run(ctx, l)
	}
	switch {
	case ctx.Err() != nil:
		return nil, fleet.Interrupted, context.Cause(ctx)
	case err != nil:
		return nil, fleet.Interrupted, err
	case refusal != "":
		return d.refused(refusal), fleet.Interrupted, nil
	}
	result := roll.Result()
	report := &Report{Code: result.Code(), Lines: result.Lines()}
	// The roll to which an add gives way may never begin.
	//guard: an add that gives way is continued by its schedule
	yielded := d.Plan.Action == fleet.Add && report.Code == fleet.CodeDone
	if result.Stopped != "" && !yielded || d.Plan.Action == fleet.Uninstall && report.Code != fleet.CodeDone {
		return report, fleet.Stopped, nil
	}
	return report, fleet.Over, nil
}

// begin reads the cluster, and follows it from then on.
func (d *dispatcher) begin(
	ctx context.Context, group *sync.WaitGroup, cancel context.CancelCauseFunc,
) (roll *rolling, refusal string, err error) {
	err = d.until(ctx, func() (err error) {
		d.owner, err = d.Client.Owner(ctx)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	d.Plan.Owner = d.owner.UID
	roll = &rolling{Roll: fleet.NewRoll(d.Plan), d: d, in: newInbox()}
	all := []*cluster.Followed{d.Client.Nodes(), d.Client.Jobs(), d.Client.Pods()}
	for _, f := range all {
		if err := d.until(ctx, func() error { return f.List(ctx, roll.in.add) }); err != nil {
			return nil, "", err
		}
		roll.apply()
	}
	if refusal = roll.Begin(); refusal != "" {
		return nil, refusal, nil
	}
	d.Say(fmt.Sprintf("roll %s (%s of version %s, section %s) begins: %s",
		d.Plan.Roll, d.Plan.Action, d.Plan.Version, d.Plan.Section, roll.Progress()))
	for _, f := range all {
		group.Go(func() {
			if err := d.follow(ctx, f, roll.in); err != nil {
				cancel(err)
			}
		})
	}
	return roll, "", nil
}

// shortWatch is the length of a watch after whose end the next one has to wait.
const shortWatch = 10 * time.Second

// follow watches objects until ctx ends.
func (d *dispatcher) follow(ctx context.Context, f *cluster.Followed, in *inbox) error {
	var retry backoff
	for {
		began := time.Now()
		err := f.Watch(ctx, in.add)
		long := time.Since(began) >= shortWatch
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, cluster.ErrAway) && !long:
			d.away.began(err)
		case err != nil && !errors.Is(err, cluster.ErrAway):
			return err
		}
		if long {
			retry.reset()
		}
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// rolling is a roll with the changes that are to go in.
type rolling struct {
	*fleet.Roll
	d  *dispatcher
	in *inbox
	// news is a line about a step, to be said with the numbers after it.
	news string
	// stays is the Job whose end was waited for last.
	stays string
	// said is when the numbers were said last, or the last step was taken.
	said time.Time
}

// errStays means that a Job has the name of another one, and is to go.
var errStays = errors.New("a former Job stays")

func (r *rolling) apply() {
	for _, change := range r.in.take() {
		if j := change.Job; j != nil && j.Roll == r.d.Plan.Roll && j.Owner == r.d.Plan.Owner {
			r.d.jobs = true
		}
		r.Apply(change)
	}
}

// run takes one step after another until the roll ends.
func (r *rolling) run(ctx context.Context, l *lock) error {
	var retry backoff
	r.said = time.Now()
	for {
		r.apply()
		changed := l.change()
		if next := r.d.Claim.GivesWay(l.get()); next != nil {
			r.Yield("gives way to " + next.String())
		}
		step := r.Next(time.Now())
		if r.news != "" {
			r.d.Say(r.news + ": " + r.Progress())
			r.news = ""
		}
		switch step.Kind {
		case fleet.End:
			return nil
		case fleet.Wait:
			if err := r.wait(ctx, step.Until, changed); err != nil {
				return err
			}
			continue
		}
		//guard: nothing is written while the lock is not certain
		if err := l.hold(ctx); err != nil {
			return err
		}
		err := r.do(ctx, step)
		switch {
		case err == nil:
			r.said = time.Now()
			retry.reset()
			r.d.away.ended()
		//guard: a former Job that stays is not asked about without a pause
		case errors.Is(err, errStays):
			if err := retry.wait(ctx); err != nil {
				return err
			}
		case errors.Is(err, cluster.ErrAway):
			// Not the same step again: what it is for may have changed when the API server is back.
			r.d.away.began(err)
			if err := retry.wait(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// sayProgress is the time without a step after which the numbers are said.
const sayProgress = 5 * time.Minute

// wait returns at the next change of the cluster or of the lock, at until, or after a while. The
// lock changes every few seconds, so that the time for the numbers goes on from one wait to the
// next.
func (r *rolling) wait(ctx context.Context, until time.Time, changed <-chan struct{}) error {
	//guard: the numbers are said although the lock ends each wait
	idle := time.NewTimer(time.Until(r.said.Add(sayProgress)))
	defer idle.Stop()
	var after <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-r.in.ready:
	case <-changed:
	case <-after:
	case <-idle.C:
		r.said = time.Now()
		r.d.Say("waits for Jobs: " + r.Progress())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// do carries out a step.
func (r *rolling) do(ctx context.Context, s fleet.Step) error {
	client := r.d.Client
	switch s.Kind {
	case fleet.Create:
		return r.create(ctx, &s.Node)
	case fleet.Read:
		pod, err := client.PodOf(ctx, &s.Job)
		if err == nil {
			r.Known(s, pod)
		}
		return err
	case fleet.Label:
		err := client.LabelNode(ctx, s.Node.Name, s.Node.UID, s.Labels)
		if errors.Is(err, cluster.ErrGone) {
			r.Apply(fleet.Change{Node: &s.Node, Gone: true})
			return nil
		}
		if err == nil {
			r.Labelled(s)
			r.news = ended(s)
		}
		return err
	case fleet.Remove:
		err := client.RemoveJob(ctx, s.Job.Name)
		if err == nil {
			r.Removed(s)
			r.d.Say(fmt.Sprintf("node %s: Job %s of an attempt before is removed, for another one", s.Node.Name, s.Job.Name))
		}
		return err
	case fleet.Clean:
		err := client.RemoveRolls(ctx, s.Rolls)
		if err == nil {
			r.Cleaned()
			r.d.Say("the Jobs of earlier rolls are removed")
		}
		return err
	}
	return nil
}

// ended returns the line about a Job that has ended.
func ended(s fleet.Step) string {
	how := string(s.Outcome.State)
	switch {
	case s.Outcome.State != fleet.StateKept:
		how += ": " + s.Outcome.Reason + ": " + s.Outcome.Sentence
	case s.Job.Action == fleet.Uninstall:
		how = "removed"
	}
	return "node " + s.Node.Name + ": " + how
}

// create makes the Job of a node, or finds the one that an attempt without an answer has made.
func (r *rolling) create(ctx context.Context, n *fleet.Node) error {
	job := r.d.Template.For(n, r.d.Plan, r.d.owner)
	made, err := r.d.Client.CreateJob(ctx, job)
	//guard: a request that was lost after it had made a Job finds it
	if errors.Is(err, cluster.ErrChanged) {
		made, err = r.found(ctx, n, job, err)
	}
	if err != nil {
		return err
	}
	r.d.jobs = true
	r.Apply(fleet.Change{Job: made})
	r.news = fmt.Sprintf("node %s: Job %s is made", n.Name, made.Name)
	return nil
}

// found returns the Job of a node that exists already. The error is errStays for a former one,
// which is to go first.
func (r *rolling) found(ctx context.Context, n *fleet.Node, job *batchv1.Job, exists error) (*fleet.Job, error) {
	found, err := r.d.Client.Job(ctx, job.Name)
	if err == nil && found == nil { // it has gone meanwhile, or is not of a roll
		if found, err = r.d.Client.CreateJob(ctx, job); errors.Is(err, cluster.ErrChanged) {
			found, err = nil, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	//guard: the Job of another roll is not taken for the one that an attempt has made
	//guard: the Job of another node is not taken for the one that an attempt has made
	//guard: the Job of a former node is not taken for the one that an attempt has made
	case found == nil || found.Roll != r.d.Plan.Roll || found.Node != n.Name || found.NodeUID != n.UID:
		return nil, fmt.Errorf("%w: only a dispatcher makes Jobs of that name: delete it", exists)
	case !r.Void(found):
		return found, nil
	}
	if r.stays != found.UID {
		r.stays = found.UID
		r.d.Say(fmt.Sprintf("node %s: waits until Job %s of an attempt before is gone: kubectl describe job says what keeps it", n.Name, found.Name))
	}
	return nil, errStays
}
