package generator

import (
	"fmt"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// The exit statuses of Changed, for ExecCondition= (systemd.service(5)).
const (
	statusReload = 0
	statusSkip   = 1
)

const (
	// quiet is the time for which a file has to stay as it is before it counts as whole. Editors
	// truncate a file and write it then, or write it in two steps.
	quiet = 500 * time.Millisecond
	// gone is the time for which a file has to be missing before it counts as removed: that ends
	// partitions and restarts pods, and some tools remove a file and write it then.
	gone = 10 * time.Second
	// between is the time between two looks.
	between = 50 * time.Millisecond
	// patience bounds the wait for a file that a program writes all the time.
	patience = time.Minute
)

// Changed judges the configuration of the node at root, after an edit of the file at
// kubeletconfig.OverridePath. It returns 0 if systemd is to be reloaded, because the configuration
// is valid and differs from what is in force. It returns 1 if nothing is to be done, and if the
// configuration is refused, which it logs and records for the monitor.
func Changed(root string, log *Log) int {
	j := judge{root: root, log: log}
	if j.settled() {
		return statusSkip
	}
	if !j.awaitQuiet() {
		log.all(levelWarning, []string{fmt.Sprintf("%s: was written again and again for %s, and is not read before it has stayed as it is for %s",
			kubeletconfig.OverridePath, patience, quiet)})
		return statusSkip // the last edit has started another run, after this one
	}
	//guard: what was settled during the wait is not applied
	if j.settled() { // a trial has begun meanwhile, for example
		return statusSkip
	}
	input, err := slices.Load(root, slices.SystemdOutput(root))
	if err != nil {
		return j.refuse(err)
	}
	return j.accept(input)
}

// judge is one run of Changed.
type judge struct {
	root string
	log  *Log
}

// settled reports whether there is nothing to do, without a wait: a trial runs, which wins, the
// file is not to be watched, or what it says is in force or was refused.
func (j judge) settled() bool {
	input, err := slices.Load(j.root, slices.SystemdOutput(j.root))
	recorded := decision.ReadWatch(j.root)
	switch {
	//guard: an edit waits for the end of a trial
	case host.Root(j.root).Exists(kubeletconfig.TrialPath), !input.Watched():
		return true
	case err != nil:
		return recorded.Refused == err.Error()
	default:
		return recorded.Refused == "" && j.applied(input)
	}
}

// applied reports whether a configuration is in force.
func (j judge) applied(input *slices.Input) bool {
	decided, err := decision.Read(j.root)
	return err == nil && decided.Identity == input.Identity()
}

// refuse logs why a configuration is refused, once, and records it.
func (j judge) refuse(err error) int {
	if decision.ReadWatch(j.root).Refused == err.Error() {
		return statusSkip
	}
	j.log.all(levelError, lines(err))
	remedy := repairConfiguration
	if onlyOverride(err) {
		remedy = repairFile
	}
	j.log.Errorf("the configuration is not applied, and what is in force stays. %s", remedy)
	j.record(decision.Watch{Refused: err.Error()})
	return statusSkip
}

// accept asks for a reload, once for a configuration: what has kept the generator from applying it
// may keep it again, and each reload starts this program.
func (j judge) accept(input *slices.Input) int {
	asked := decision.Watch{Requested: input.Identity()}
	switch {
	case j.applied(input):
		j.record(decision.Watch{})
		return statusSkip
	//guard: a reload that applies nothing is asked for once
	case decision.ReadWatch(j.root) == asked:
		j.log.Errorf("%s: systemd was reloaded, and the file is not applied; see journalctl -b -t partition-generator, repair what it "+
			"names, and run systemctl daemon-reload", kubeletconfig.OverridePath)
		return statusSkip
	}
	j.record(asked)
	//guard: a reload that cannot be recorded is not asked for again and again
	if decision.ReadWatch(j.root) != asked {
		j.log.Errorf("%s has changed, and is not applied. %s", kubeletconfig.OverridePath, repairCause)
		return statusSkip
	}
	j.log.noticef("%s has changed: reloading systemd to apply it", kubeletconfig.OverridePath)
	return statusReload
}

func (j judge) record(w decision.Watch) { record(j.root, w, j.log) }

// record writes what was decided of a configuration. Without it the monitor learns of a refusal
// from the next reload.
func record(root string, w decision.Watch, log *Log) {
	if decision.ReadWatch(root) == w {
		return
	}
	if err := w.Write(root); err != nil {
		log.all(levelWarning, []string{"recording for partition-monitor what was refused failed: " + err.Error()})
	}
}

// awaitQuiet waits until the file has stayed as it is for a while, or until nothing is left to do.
// It returns false if the file does not stay. A file that was removed may be applied by a reload of
// the operator meanwhile, and then a kubelet that is being started need not wait.
func (j judge) awaitQuiet() bool {
	begin := time.Now()
	last, since, looked := contentOf(j.root), begin, begin
	tick := time.NewTicker(between)
	defer tick.Stop()
	//guard: a file that is written all the time does not hold up the kubelet
	for time.Since(begin) < patience {
		<-tick.C
		now := contentOf(j.root)
		if now != last {
			last, since = now, time.Now()
			continue
		}
		//guard: a file is whole when it has stayed as it is for a while
		if time.Since(since) >= stays(now) {
			return true
		}
		// A file that is being written may look for a moment like what is in force.
		//guard: a file that is being written is not taken for what is in force
		if time.Since(since) < quiet || time.Since(looked) < time.Second {
			continue
		}
		//guard: a reload of the operator ends the wait for a removed file
		if looked = time.Now(); j.settled() {
			return true
		}
	}
	return false
}

// stays returns for how long a content has to stay as it is.
func stays(content string) time.Duration {
	if strings.HasPrefix(content, unread) {
		//guard: a file that is missing for a moment is not removed
		return gone
	}
	return quiet
}

// unread begins what contentOf returns for a file that cannot be read. No text begins with it.
const unread = "\x00"

// contentOf returns the content of the file, or the reason why it has none.
func contentOf(root string) string {
	data, err := host.Root(root).ReadFile(kubeletconfig.OverridePath, maxContent)
	if err != nil {
		return unread + err.Error()
	}
	return string(data)
}

// maxContent is more than the file may have.
const maxContent = 1 << 20
