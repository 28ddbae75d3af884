package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"node-partition.io/node-partition/tests/lab"
)

// reportInterval is the time between two reports of the steps that run.
const reportInterval = 30 * time.Second

// run follows the steps of a command by their lines of progress.
type run struct {
	// tell prints a line.
	tell func(string)
	// began is the begin of all, also of the build of this command.
	began time.Time
	// plan lists the steps of a first run. It is empty for later runs.
	plan []planned

	mu    sync.Mutex
	steps []followed // in the order in which they began
}

// followed is a step that has begun.
type followed struct {
	name  string
	began time.Time
	// took is set when the step is over.
	took time.Duration
	over bool
}

// buildingLab is the step of tests/lab/lab before this command begins.
const buildingLab = "building the lab's command"

// newRun returns a run that began at a time, and was spent on the build of this command until now.
func newRun(tell func(string), began, now time.Time, plan []planned) *run {
	return &run{
		tell: tell, began: began, plan: plan,
		steps: []followed{{name: buildingLab, began: began, took: now.Sub(began), over: true}},
	}
}

// beganAt returns the time in seconds that tests/lab/lab has left in the environment, or now.
func beganAt(seconds string, now time.Time) time.Time {
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if began := time.Unix(unix, 0); err == nil && began.Before(now) {
		return began
	}
	return now
}

// progress prints a line of progress, and notes the step that begins or ends with it.
func (r *run) progress(line string) {
	if name, over := lab.ReadStep(line); name != "" {
		r.note(name, over, time.Now())
	}
	r.tell(line)
}

func (r *run) note(name string, over bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !over {
		r.steps = append(r.steps, followed{name: name, began: now})
		return
	}
	for i := range r.steps {
		if s := &r.steps[i]; s.name == name && !s.over {
			s.took, s.over = now.Sub(s.began), true
			return
		}
	}
}

// step reports the begin of a step of this command. The returned function reports its end.
func (r *run) step(name string) (done func()) { return lab.BeginStep(r.progress, name) }

// report prints which steps run, and how long the rest takes, again and again until the returned
// function is called.
func (r *run) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if line := r.running(time.Now()); line != "" {
					r.tell(line)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// running describes the steps that run, or is empty if none does.
func (r *run) running(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	begun := map[string]observed{}
	for _, s := range r.steps {
		if s.over {
			begun[s.name] = observed{took: s.took, over: true}
			continue
		}
		took := now.Sub(s.began)
		begun[s.name] = observed{took: took}
		names = append(names, fmt.Sprintf("%s (%s)", s.name, took.Round(time.Second)))
	}
	if len(names) == 0 {
		return ""
	}
	line := "still " + strings.Join(names, ", ")
	if left, ok := remaining(r.plan, begun); ok {
		line += ": " + about(left) + " left"
	}
	return line
}

// announce says what a first run makes, and how long the run takes.
func (r *run) announce(w io.Writer, missing []lab.Step) {
	fmt.Fprintln(w, "This is a first run. It makes, once:")
	for _, s := range missing {
		fmt.Fprintln(w, "  "+s.Name)
	}
	if left, ok := remaining(r.plan, nil); ok {
		fmt.Fprintf(
			w, "With the demo this takes %s on two cores. Machines differ: some take %d times as long.\n",
			about(left), maxPace,
		)
	}
}

// writeTimes writes a table of the steps that are over, and the time of all.
func (r *run) writeTimes(w io.Writer, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(w, "\n== Where the time of this first run went. Some steps ran side by side")
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tBEGAN AFTER\tTOOK")
	for _, s := range r.steps {
		if s.over {
			fmt.Fprintf(table, "%s\t%.0f s\t%.0f s\n", s.name, s.began.Sub(r.began).Seconds(), s.took.Seconds())
		}
	}
	fmt.Fprintf(table, "all\t\t%.0f s\n", now.Sub(r.began).Seconds())
	return table.Flush()
}
