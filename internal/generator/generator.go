// Package generator is what partition-generator does once its arguments are read: it plans, writes, and says what is
// wrong. It is apart from the program so that tests run it in their own process.
package generator

import (
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
	if err := output.Write(plan); err != nil {
		log.Errorf("%v", err)
		keepLast(output, plan, log)
		return 1
	}
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
	if err != nil {
		log.Errorf("the last good units cannot be kept: %v", err)
		return
	}
	if stdslices.Contains(restored, slices.SystemSlice) {
		log.Errorf("the configuration is not applied; keeping the units of the last good one. Repair it and run systemctl daemon-reload")
		return
	}
	log.Errorf("no system partition is made. Repair the configuration and run systemctl daemon-reload")
	if len(restored) == 0 && plan.Partition == nil {
		if err := output.Write(plan); err != nil {
			log.Errorf("%v", err)
		}
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
