// Package generator is what partition-generator does once its arguments are read: it plans, writes, and says what is
// wrong. It is apart from the program so that tests run it in their own process.
package generator

import (
	"fmt"
	stdslices "slices"

	"nodepartition/pkg/slices"
)

// Run makes the units of the node at root, and writes them into dir, the first of a generator's directories. It returns the
// exit status: 0 also where there is no partition to make, 1 for a configuration that is not valid and for units that could
// not be written. What there is to say goes to log.
func Run(root, dir string, log *Log) int {
	output := slices.NewOutput(root, dir)
	plan, err := plan(root, output)
	if err != nil {
		// What is wrong and what comes of it first: the kernel log takes ten records from us.
		log.all(levelError, flatten(err))
		keepLast(output, plan, log)
		log.all(levelWarning, plan.Warnings)
		return 1
	}
	log.all(levelWarning, plan.Warnings)
	if plan.Yields != "" {
		log.noticef("%s", plan.Yields)
	}
	if plan.KubeletsFile != "" && plan.Apply { // at a reload: at boot nobody is there who could read it
		log.noticef("%s", plan.KubeletsFile)
	}
	return write(output, plan, log)
}

// write writes the units, or else keeps the last ones. Where there is nothing to keep, and no way
// to make all units valid at once, a partition that is written file by file is better than none.
func write(output slices.Output, plan *slices.Plan, log *Log) int {
	err := output.Write(plan)
	if err == nil {
		return 0
	}
	restored, restoreErr := output.Restore(plan.Apply)
	if stdslices.Contains(restored, slices.SystemSlice) || slices.IsConflict(err) || len(plan.Units) == 0 {
		log.Errorf("%v", err)
		sayKept(restored, restoreErr, log)
		return 1
	}
	if plainErr := output.WritePlain(plan); plainErr != nil {
		log.Errorf("%v", err)
		log.Errorf("%v", plainErr)
		sayKept(nil, nil, log)
		return 1
	}
	log.all(levelWarning, []string{fmt.Sprintf("%v: writing the units one by one. A later configuration that is broken will end the partition, "+
		"for the last good units cannot be kept; does a security policy keep generators out of %s?", err, slices.StateDir)})
	return 0
}

func plan(root string, output slices.Output) (*slices.Plan, error) {
	input, err := slices.Load(root, output)
	if err != nil {
		return slices.NoPlan(input), err
	}
	return slices.NewPlan(input)
}

// keepLast answers a configuration that is broken, or units that cannot be written: neither must lift the limits of a
// running partition. What plan holds then is not the partition, but what may still lead to one.
func keepLast(output slices.Output, plan *slices.Plan, log *Log) {
	restored, err := output.Restore(plan.Apply)
	sayKept(restored, err, log)
	if err == nil && len(restored) == 0 && plan.Partition == nil {
		write(output, plan, log)
	}
}

// sayKept says what comes of an error: which units of this boot were restored, and why they could
// not be.
func sayKept(restored []string, err error, log *Log) {
	switch {
	case err != nil:
		log.Errorf("the last good units cannot be kept: %v", err)
	case stdslices.Contains(restored, slices.SystemSlice):
		log.Errorf("the configuration is not applied; keeping the units of the last good one. Repair it and run systemctl daemon-reload")
	default:
		log.Errorf("no system partition is made. Repair the configuration and run systemctl daemon-reload")
	}
}

// flatten takes apart what errors.Join put together, so that each problem gets a line of its own.
func flatten(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var list []string
	for _, one := range joined.Unwrap() {
		list = append(list, flatten(one)...)
	}
	return list
}
