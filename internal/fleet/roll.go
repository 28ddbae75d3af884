package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"nodepartition/internal/nodelabel"
)

// Plan says what a roll is to do.
type Plan struct {
	Action Action
	// Roll is the ID of the roll. A node has Version and Section afterwards.
	Roll, Version, Section string
	// Owner is the UID of the object that owns the Jobs.
	Owner    string
	Settings Settings
	// Continued means that the last dispatcher did not come to the end of this attempt of a
	// removal: the failures in it count.
	Continued bool
	// Deadline is the time that a Job has, for messages.
	Deadline time.Duration
}

// Kind is a kind of Step.
type Kind int

// The steps of a roll.
const (
	// Wait has nothing to do before a change, or before Until if that is not zero.
	Wait Kind = iota
	// Create makes the Job of Node. Change with the Job follows.
	Create
	// Read reads the pod of Job, whose message is not known although the Job has ended. Known
	// follows.
	Read
	// Label writes Labels to Node. Labelled or a Change follows.
	Label
	// Remove removes Job, which has failed in an attempt before or was made before a removal, and
	// Node gets another one. Removed follows.
	Remove
	// Clean removes the Jobs of Rolls, which have ended. Cleaned follows.
	Clean
	// End ends the roll.
	End
)

// Step says what has to be done next.
type Step struct {
	Kind Kind
	Node Node
	Job  Job
	// Labels has the new values of labels by their names. A label without a value is removed.
	Labels map[string]*string
	// Outcome says how Job has ended, for Label.
	Outcome Outcome
	// Rolls has the IDs of rolls, for Clean.
	Rolls []string
	// Until is the end of a Wait.
	Until time.Time
}

// phase says how far a member has come.
type phase int

const (
	outside  phase = iota // not selected
	skipped               // cannot have a Job now
	blocked               // has a Job of another roll that runs
	waiting               // waits for its turn
	running               // has a Job of this roll that runs
	ended                 // its Job has ended, and its labels are to be written
	finished              // has had its turn
	phases
)

// member is a node in a roll.
type member struct {
	node    Node
	present bool // the Node exists
	pool    int  // noPool outside
	phase   phase
	why     Outcome // why it is skipped
	both    bool    // a Job would change version and section at once
	job     string  // the name of its Job in this roll
	others  int     // its Jobs of other rolls that run
	undone  bool    // a removal has made a Job for it
	tried   bool    // any roll has made a Job for it, or for a former node of its name
	read    bool    // its pod was looked for
	taken   int     // the pool in which it takes a place, noPool for none
	place   int     // in the queue
	kept    bool    // it is counted as one that has kept the partition
	early   bool    // its Job had ended before this dispatcher began
	watched bool    // it is kept, and its pause is over
	fall    *fall   // it is watched and not Ready, nil otherwise
}

const noPool = -1

// Roll is the state of a roll. Changes of the cluster go in, and steps come out. A roll that begins
// in the middle, after another dispatcher was killed, is in the same state as that one was: all of
// it follows from the nodes, the Jobs and the pods.
type Roll struct {
	plan    Plan
	members map[string]*member
	queue   queue
	counts  [phases]int
	jobs    map[string]*Job // by name
	pods    map[string]*Pod // by the UID of the Job
	removed map[string]bool // UIDs of Jobs
	work    []task          // what has ended and is to be judged
	again   []string        // names of Jobs to be removed
	pools   pools
	falls   []*fall // in the order in which they began
	// elsewhere has the Jobs of other rolls that run, and litter the IDs of rolls whose Jobs have
	// ended.
	elsewhere, litter map[string]bool
	begun             bool // Begin was called
	result            Result
}

// task is the end of a Job of a member.
type task struct {
	m   *member
	job string
	// early means that the Job had ended before this dispatcher began.
	early bool
}

// NewRoll returns a roll before its first change. The first changes have all nodes, then all Jobs,
// then all pods. Begin follows them.
func NewRoll(p Plan) *Roll {
	return &Roll{
		plan: p, members: map[string]*member{}, jobs: map[string]*Job{}, pods: map[string]*Pod{},
		removed: map[string]bool{}, elsewhere: map[string]bool{}, litter: map[string]bool{}, pools: newPools(p.Settings),
		result: Result{Action: p.Action}, queue: queue{before: byPool},
	}
}

// Apply takes a change of the cluster. A repeated change has no effect.
func (r *Roll) Apply(c Change) {
	switch {
	case c.Node != nil && c.Gone:
		r.nodeGone(c.Node)
	case c.Node != nil:
		r.nodeSeen(c.Node)
	case c.Job != nil && c.Gone:
		r.jobGone(c.Job)
	case c.Job != nil:
		r.jobSeen(c.Job)
	case c.Pod != nil && !c.Gone: // what is known of a pod that is gone still counts
		r.pods[c.Pod.JobUID] = c.Pod
	}
}

func (r *Roll) member(name string) *member {
	m := r.members[name]
	if m == nil {
		m = &member{node: Node{Name: name}, pool: noPool, taken: noPool, place: nowhere}
		r.members[name] = m
		r.counts[outside]++
	}
	return m
}

func (r *Roll) enter(m *member, p phase) {
	r.counts[m.phase]--
	r.counts[p]++
	if p != waiting {
		r.queue.remove(m)
	}
	m.phase = p
}

func (r *Roll) nodeSeen(n *Node) {
	m := r.member(n.Name)
	if m.node.UID != "" && m.node.UID != n.UID {
		r.replace(m)
	}
	m.node, m.present = *n, true
	r.look(m)
	r.judge(m)
}

// replace makes room for another node of the same name. A Job of the former one has to end first:
// both have the name, so its pod may run on the new one.
func (r *Roll) replace(m *member) {
	//guard: a node is not waited for by a Job that has ended
	if m.phase == running && !r.jobs[m.job].ended() {
		//guard: a node that went NotReady in its trial and came back as another one has failed
		if r.died(m) {
			r.finish(m, dead(m, diedInTrial))
		}
		//guard: another node of the same name waits for the Job of the former one
		m.others++
		r.elsewhere[m.job] = true
	}
	//guard: a node that was not Ready in its pause and joins again as another one has failed
	//guard: a node that is replaced in its pause while it is Ready has not failed
	//guard: a node that is replaced after its pause has not failed
	//guard: a node that was off before the dispatcher began, and is replaced, has not failed
	if m.kept && !m.watched && !m.early && !m.node.Ready {
		r.lose(m) // it has not survived its pause
	}
	r.unwatch(m)
	//guard: a node that registers again in a removal is not forgotten
	m.job, m.read, m.undone = "", false, false
	r.enter(m, outside)
}

func (r *Roll) nodeGone(n *Node) {
	m := r.members[n.Name]
	//guard: the end of a former node is not that of the present one
	if m == nil || m.node.UID != n.UID {
		return
	}
	m.present = false
	r.look(m)
	r.judge(m)
}

// judge decides whether a member that has not had its turn may have it.
func (r *Roll) judge(m *member) {
	if m.phase >= running {
		return
	}
	r.queue.remove(m) // its pool may change, by which it is ordered
	pool := r.poolOf(m)
	r.pools.move(m.pool, pool)
	m.pool = pool
	switch {
	case pool == noPool:
		r.enter(m, outside)
		//guard: a node that leaves and registers again in a removal is not forgotten
		if !m.present && !m.tried && m.others == 0 && m.taken == noPool {
			delete(r.members, m.node.Name)
			r.counts[outside]--
		}
	//guard: a node whose Job of another roll runs waits for its end
	case m.others > 0:
		//guard: a node that waits for the Job of a former one of its name takes a place
		r.take(m)
		r.enter(m, blocked)
	case r.unfit(m):
		r.enter(m, skipped)
	default:
		r.enter(m, waiting)
		r.queue.add(m)
	}
}

// unfit reports whether a member cannot have a Job now, and sets why.
func (r *Roll) unfit(m *member) bool {
	n := &m.node
	m.both = r.plan.Action != Uninstall && n.changesBoth(r.plan.Version, r.plan.Section)
	reason, sentence := "", ""
	switch {
	case n.Leaving:
		reason, sentence = "leaving", "the Node is being deleted"
	case !n.Ready:
		reason, sentence = reasonNotReady, n.NotReady
	case n.Cordoned && r.plan.Action != Uninstall:
		reason, sentence = "cordoned", "somebody has excluded it from scheduling (kubectl uncordon ends that)"
	//guard: a node that comes back in the middle does not change version and section at once
	case m.both:
		reason, sentence = "both", fmt.Sprintf("it has version %s and section %s, and this roll would change both at once",
			n.Labels[nodelabel.Version], n.Labels[nodelabel.Section])
	}
	m.why = Outcome{Node: n.Name, Reason: reason, Sentence: sentence}
	return reason != ""
}

// changesBoth reports whether a node that has a version and a section would be given another of
// each. If it failed then, nothing would say which of the two is the cause.
func (n *Node) changesBoth(version, section string) bool {
	//guard: the version that the monitor writes counts as that of the roll
	version = nodelabel.VersionValue(version)
	hasVersion, hasSection := n.Labels[nodelabel.Version], n.Labels[nodelabel.Section]
	return hasVersion != "" && hasSection != "" && hasVersion != version && hasSection != section
}

func (r *Roll) jobSeen(j *Job) {
	before := r.jobs[j.Name]
	//guard: what a watch tells late does not undo the end of a Job
	//guard: a Job that was removed is not seen again
	if r.removed[j.UID] || before != nil && before.UID == j.UID && before.ended() {
		return // what is told again, or late
	}
	r.jobs[j.Name] = j
	m := r.member(j.Node)
	if !m.tried {
		//guard: a node that only a Job makes one of a removal takes a place
		m.tried = true
		r.judge(m) // it may be of a removal now, and its Job takes a place then
	}
	m.undone = m.undone || j.Action == Uninstall && m.node.UID == j.NodeUID
	//guard: a Job for another node of the same name is not taken for the present one's
	//guard: a Job that shows up after its node has left is not counted
	if ours := r.ours(j) && (m.job == j.Name || m.present && j.NodeUID == m.node.UID); !ours {
		r.otherSeen(m, j)
		return
	}
	if !j.ended() {
		r.take(m)
		r.pools.reach(m.pool)
		m.job = j.Name
		r.enter(m, running)
		return
	}
	if r.plan.Action == Add && before == nil && m.pool == noPool {
		return // an earlier run of add has judged it
	}
	m.job = j.Name
	// After an outage of the API server a Job of this dispatcher may be seen first when it has ended.
	// One that is being removed then is of an attempt before.
	//guard: a Job that is seen first when it has ended is not of an attempt before
	//guard: a Job that is being removed when it is seen first is of an attempt before
	early := before == nil && (!r.begun || j.Leaving)
	//guard: a removal that is continued knows its failures
	if early && r.plan.Action == Uninstall && j.Failed && !r.plan.Continued {
		// Whoever removes a release again wants another attempt.
		r.again = append(r.again, j.Name)
		r.enter(m, running)
		return
	}
	r.take(m)
	r.pools.reach(m.pool)
	r.enter(m, ended)
	r.work = append(r.work, task{m: m, job: j.Name, early: early})
}

// ours reports whether a Job is of this roll. A release that was deleted and is installed again has
// the same one. Its former Jobs are collected with their owner, some time.
func (r *Roll) ours(j *Job) bool {
	//guard: the Jobs of a release that was deleted do not count for the next one
	return j.Roll == r.plan.Roll && j.Owner == r.plan.Owner
}

// Void reports whether a Job of this roll says nothing any more. It keeps its name from another one
// until it is gone.
func (r *Roll) Void(j *Job) bool {
	//guard: a Job that was removed and stays is not taken for its successor
	//guard: a Job that is being deleted is not taken for its successor
	return j.Leaving || r.removed[j.UID] || j.Roll == r.plan.Roll && !r.ours(j)
}

// otherSeen takes a Job of another roll, or one of this roll for a former node of that name.
func (r *Roll) otherSeen(m *member, j *Job) {
	known := r.elsewhere[j.Name]
	switch {
	case !j.ended() && !known:
		r.elsewhere[j.Name] = true
		m.others++
	case j.ended() && known:
		delete(r.elsewhere, j.Name)
		m.others--
		r.work = append(r.work, task{m: m, job: j.Name})
	}
	if j.ended() && j.Roll != r.plan.Roll {
		r.litter[j.Roll] = true
	}
	r.judge(m)
}

// jobGone takes the end of a Job. Somebody has deleted one that had not ended.
func (r *Roll) jobGone(j *Job) {
	known := r.jobs[j.Name]
	//guard: the end of a former Job is not that of the present one
	if known == nil || known.UID != j.UID || known.ended() {
		return
	}
	gone := *known
	//guard: a Job that somebody deletes has failed
	gone.Failed, gone.Reason, gone.Message = true, "Deleted", "somebody has deleted it before it had ended"
	r.jobSeen(&gone)
}

// take gives a member a place among those that have a Job at once.
func (r *Roll) take(m *member) {
	if m.taken == noPool && m.pool != noPool {
		m.taken = m.pool
		r.pools.take(m.pool)
	}
}

// release makes the place of a member free at once.
func (r *Roll) release(m *member) {
	if m.taken != noPool {
		r.pools.free(m.taken)
		m.taken = noPool
	}
}

// Begin ends the first changes. It returns why the roll is refused, empty if it is not: nothing is
// made then.
func (r *Roll) Begin() (refusal string) {
	r.void()
	r.begun = true
	made := r.counts[running] + r.counts[ended] + r.counts[finished] - len(r.again)
	if made > 0 {
		return ""
	}
	var both []string
	selected := 0
	for _, m := range r.members {
		if m.pool != noPool {
			selected++
		}
		if m.phase == skipped && m.why.Reason == "both" {
			both = append(both, m.node.Name)
		}
	}
	switch {
	case len(both) > 0:
		return fmt.Sprintf("version and section would both change, to %s and %s, on %s: a node that failed would not say which of them is "+
			"the cause. Roll one of them first and then the other; or select other nodes, if these lag behind",
			r.plan.Version, r.plan.Section, listed(both, 5))
	case selected == 0 && r.plan.Action == Install:
		return fmt.Sprintf("the selector and controlPlane select none of the %d nodes of the cluster: see kubectl get nodes --show-labels",
			len(r.members))
	}
	return ""
}

// void removes the Jobs of this roll that say nothing any more, because a removal came after them.
// It has left them in place, and the first roll after it removes its own. Their nodes get other
// ones.
func (r *Roll) void() {
	if r.plan.Action == Uninstall {
		return
	}
	r.work = slices.DeleteFunc(r.work, func(t task) bool {
		//guard: the Jobs of a roll do not count when a removal came after them
		if !t.m.undone || t.m.job != t.job {
			return false
		}
		//guard: a Job that a removal has made void takes no place
		r.release(t.m)
		r.enter(t.m, running)
		r.again = append(r.again, t.job)
		return true
	})
}

// stop makes the roll make no further Job. It waits for those that run.
func (r *Roll) stop(why string) {
	if r.result.Stopped == "" {
		r.result.Stopped = why
	}
}

// Yield makes the roll make no further Job for the sake of another one.
func (r *Roll) Yield(why string) {
	r.stop(why)
	r.result.Yields = true
}

// Next returns the next step. Its effect has to go in before the next call. Nothing in it depends
// on the number of nodes but the logarithm of it, and End.
func (r *Roll) Next(now time.Time) Step {
	for len(r.work) > 0 {
		if step := r.judged(now); step.Kind != Wait {
			return step
		}
	}
	r.rested(now)
	if len(r.again) > 0 {
		job := r.jobs[r.again[0]]
		return Step{Kind: Remove, Job: *job, Node: r.members[job.Node].node}
	}
	runs := r.counts[running] + r.counts[blocked]
	if len(r.litter) > 0 && len(r.elsewhere) == 0 && r.plan.Action == Install {
		return Step{Kind: Clean, Rolls: slices.Sorted(maps.Keys(r.litter))}
	}
	if r.result.Stopped == "" && r.queue.Len() > 0 {
		first := r.queue.members[0]
		if r.pools.allow(first.pool) {
			return Step{Kind: Create, Node: first.node}
		}
		return Step{Kind: Wait, Until: r.nextFree()}
	}
	if runs > 0 {
		return Step{Kind: Wait}
	}
	return Step{Kind: End}
}

// judged takes a Job that has ended one step further. It returns Wait if there is nothing to do
// about it any more.
func (r *Roll) judged(now time.Time) Step {
	t := r.work[0]
	m, job := t.m, r.jobs[t.job]
	here := m.present && job.NodeUID == m.node.UID
	pod := r.pods[job.UID]
	//guard: no pod is read for a Job whose deadline is over
	if here && job.Failed && job.Reason != deadlineExceeded && (pod == nil || pod.Container == "") && !m.read {
		//guard: a pod that could not be read is read again
		return Step{Kind: Read, Job: *job, Node: m.node}
	}
	o := outcome(job, pod, r.plan.Deadline.String())
	if labels := o.labels(job); here && !m.node.has(labels) {
		return Step{Kind: Label, Job: *job, Node: m.node, Labels: labels, Outcome: o}
	}
	r.work = r.work[1:]
	//guard: the place of a node stays taken while a Job of another roll runs there
	if m.taken != noPool && m.others == 0 {
		r.pools.rest(rest{now.Add(r.plan.Settings.Pause), m.taken, m, job})
		m.taken = noPool
	}
	//guard: the pod of the second Job of a node is read, too
	m.read = false
	switch {
	case !r.ours(job) || m.job != job.Name:
		r.judge(m)
	//guard: a node that went NotReady in its trial and was deleted then has failed
	case !here && r.died(m):
		r.enter(m, finished)
		r.finish(m, dead(m, diedInTrial))
	case !here:
		r.enter(m, finished)
		r.result.Gone = append(r.result.Gone, m.node.Name)
	default:
		r.enter(m, finished)
		m.early = t.early
		r.finish(m, o)
	}
	return Step{}
}

// finish counts an outcome of this roll.
func (r *Roll) finish(m *member, o Outcome) {
	if o.State == StateKept {
		r.result.Done++
		m.kept = r.plan.Action != Uninstall
		return
	}
	r.result.Failures = append(r.result.Failures, o)
	switch failed, most := len(r.result.Failures), r.plan.Settings.MaxFailures; {
	case failed > most:
		r.stop(fmt.Sprintf("%s, and maxFailures is %d", count(failed, "node")+" failed", most))
	//guard: a removal goes on after a node of the control plane that failed within maxFailures
	case m.pool == r.pools.last() && r.plan.Action != Uninstall:
		r.stop("node " + m.node.Name + " of the control plane failed, whatever maxFailures is")
	}
}

// Known follows Read, if there was an answer. pod is nil if there is none.
func (r *Roll) Known(s Step, pod *Pod) {
	r.members[s.Job.Node].read = true
	if pod != nil {
		r.pods[s.Job.UID] = pod
	}
}

// Labelled follows Label: the node has the labels now.
func (r *Roll) Labelled(s Step) {
	m := r.members[s.Node.Name]
	//guard: the labels of a former node are not those of the present one
	if m == nil || m.node.UID != s.Node.UID {
		return
	}
	labels := merged(m.node.Labels, nil)
	for name, value := range s.Labels {
		if delete(labels, name); value != nil {
			labels[name] = *value
		}
	}
	m.node.Labels = labels
}

// Removed follows Remove.
func (r *Roll) Removed(s Step) {
	r.again = r.again[1:]
	r.removed[s.Job.UID] = true
	delete(r.jobs, s.Job.Name)
	//guard: the Job of the present node stays when that of the former one is removed
	if m := r.members[s.Job.Node]; m != nil && m.job == s.Job.Name {
		m.job = ""
		r.enter(m, outside)
		r.judge(m)
	}
}

// Cleaned follows Clean.
func (r *Roll) Cleaned() { clear(r.litter) }
