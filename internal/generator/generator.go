package generator

import (
	"errors"
	"fmt"
	stdslices "slices"
	"strings"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/pkg/slices"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// Run plans the units of the node at root, and writes them into dir, the first of a generator's
// directories. It logs to log. It returns the exit status: 0, also if there is no partition to
// make, and 1 for an invalid configuration or for units that could not be written.
//
// now is an input as any file is: the one time that matters is the end of a trial.
func Run(root, dir string, now trialend.Moment, log *Log) int {
	output := slices.NewOutput(root, dir)
	//guard: only a run for systemd ends a trial
	if output.IsSystemds() {
		endTrial(root, now, log)
	}
	input, err := slices.Load(root, output)
	plan := slices.NewPlan(input)
	if err != nil {
		// Log the errors and their consequence first: the kernel log takes ten records from us.
		log.all(levelError, lines(err))
		keepLast(root, output, plan, func(units []string) string {
			// The units in force may be of a time when the file was not to be watched.
			if input.Watched() && stdslices.Contains(units, slices.WatchPath) && onlyOverride(err) {
				return repairFile
			}
			return repairConfiguration
		}, log)
		log.all(levelWarning, plan.Warnings)
		//guard: what is refused is recorded for a monitor that follows the last good configuration
		if output.IsSystemds() && (input.Watched() || inForce(root)) {
			record(root, decision.Watch{Refused: err.Error()}, log)
		}
		return 1
	}
	log.all(levelWarning, plan.Warnings)
	if plan.Config.ManagedByKubelet != "" {
		log.noticef("%s", plan.Config.ManagedByKubelet)
	}
	if plan.Config.KubeletsFile != "" && plan.Apply { // at a reload: at boot no operator could read it
		log.noticef("%s", plan.Config.KubeletsFile)
	}
	if plan.Waits != "" { // of interest only to someone who expects a partition
		log.infof("%s", plan.Waits)
	}
	status := write(output, plan, log)
	if status == 0 && output.IsSystemds() {
		record(root, decision.Watch{}, log)
	}
	return status
}

// inForce reports whether the node has a configuration in force, which a monitor may follow.
func inForce(root string) bool {
	_, err := decision.Read(root)
	return err == nil
}

// write writes the units. If that fails, it restores the last output. If no partition can be
// restored and there is no way to make all units valid at once, it writes the units file by file:
// such a partition is better than none.
func write(output slices.Output, plan *slices.Plan, log *Log) int {
	err := output.Write(plan)
	if err == nil {
		return 0
	}
	restored, restoreErr := output.Restore(plan.Apply)
	if hasPartition(restored) || errors.Is(err, slices.ErrConflict) || len(plan.Units) == 0 {
		log.Errorf("%v", err)
		sayKept(hasPartition(restored), restoreErr, repairCause, log)
		return 1
	}
	if plainErr := output.WritePlain(plan); plainErr != nil {
		log.Errorf("%v", err)
		log.Errorf("%v", plainErr)
		sayKept(false, nil, repairCause, log)
		return 1
	}
	log.all(
		levelWarning,
		[]string{
			fmt.Sprintf("%v: writing the units one by one. A later configuration that is broken will end the partition, "+
				"because the last good units cannot be kept; does a security policy keep generators out of %s?", err, config.StateDir),
		},
	)
	return 0
}

// keepLast restores the last good units after an invalid configuration, so that a running partition
// keeps its limits. If there are none, it writes plan, which then holds only units that may still
// lead to a partition, and the slices that the kubelet does not start without. It also writes plan
// if these slices, or the units that watch the file, are missing from last good units without a
// partition, such as those that waited for the kubelet's configuration. What was decided stays.
// remedy says what to do while units are in force.
func keepLast(root string, output slices.Output, plan *slices.Plan, remedy func(units []string) string, log *Log) {
	if decided, err := decision.Read(root); err == nil {
		//guard: a partition that is off stays off while a later file is broken
		plan.Decision = *decided
	}
	if last, err := output.Last(); err == nil && !hasPartition(last) && lacks(last, plan) {
		sayKept(false, nil, remedy(paths(plan)), log)
		write(output, plan, log)
		return
	}
	restored, err := output.Restore(plan.Apply)
	units := restored
	if len(units) == 0 {
		units = paths(plan)
	}
	sayKept(hasPartition(restored), err, remedy(units), log)
	if err == nil && len(restored) == 0 && len(plan.Config.Partitions) == 0 {
		write(output, plan, log)
	}
}

func paths(plan *slices.Plan) []string {
	list := make([]string, 0, len(plan.Units))
	for _, u := range plan.Units {
		list = append(list, u.Path)
	}
	return list
}

// lacks reports whether the plan has a slice that is not among units, or units that see the file
// when it is repaired.
func lacks(units []string, plan *slices.Plan) bool {
	return stdslices.ContainsFunc(plan.Units, func(u slices.UnitFile) bool {
		//guard: a file that comes broken is watched
		return (strings.HasSuffix(u.Path, ".slice") || u.Path == slices.WatchPath) && !stdslices.Contains(units, u.Path)
	})
}

// hasPartition reports whether the slice of a partition is among units. A refused configuration
// does not name the workload partitions that are in force, so the paths decide.
func hasPartition(units []string) bool {
	return stdslices.ContainsFunc(units, func(path string) bool {
		//guard: a workload partition alone outlives a broken configuration
		name, ok := partition.ParseSlice(path)
		return ok && name != partition.Default
	})
}

// sayKept logs the consequence of an error: whether the partition's units of this boot were kept,
// or why they could not be, and what ends it.
func sayKept(kept bool, err error, remedy string, log *Log) {
	switch {
	case err != nil:
		log.Errorf("the last good units cannot be kept: %v", err)
	case kept:
		log.Errorf("the configuration is not applied; keeping the units of the last good one. %s", remedy)
	default:
		log.Errorf("no partition is made. %s", remedy)
	}
}

// What to do about an error. repairCause is for one that is not of the configuration.
const (
	repairFile          = "Repair the file: it is read again when it changes"
	repairConfiguration = "Repair the configuration and run systemctl daemon-reload"
	repairCause         = "Repair the cause and run systemctl daemon-reload"
)

// onlyOverride reports whether all problems are in the file at kubeletconfig.OverridePath. A repair
// of another one needs a reload.
func onlyOverride(refused error) bool {
	return !stdslices.ContainsFunc(lines(refused), func(line string) bool {
		return !strings.HasPrefix(line, kubeletconfig.OverridePath+": ")
	})
}

func lines(err error) []string {
	problems := config.Problems(err)
	list := make([]string, 0, len(problems))
	for _, problem := range problems {
		list = append(list, problem.Error())
	}
	return list
}
