// Command partition-generator is a systemd generator (systemd.generator(7)). It writes the units of the
// system partition from the systemPartition section of the kubelet's configuration.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	stdslices "slices"

	"nodepartition/pkg/slices"
)

// version is set by the Makefile, from git.
var version = "unknown"

const usage = `Usage: partition-generator NORMAL-DIR [EARLY-DIR LATE-DIR]

A systemd generator: writes the units of the system partition, as the
systemPartition section of the kubelet's configuration asks for it, into
NORMAL-DIR. systemd runs it at boot and at every daemon-reload.

  --help     show this text
  --version  show the version

Environment:
  PARTITION_ROOT  read all files, and keep the state, below this directory
`

func main() {
	// One goroutine, one thread: the Go runtime would move us between threads at slow system calls, to nobody's
	// use, and tests kill this program at its n-th system call, which strace counts by thread.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, openLog(os.Getenv)))
}

// run is the whole program. It returns the exit status: 0 also where there is no partition to make, 1 for a
// configuration that is not valid and for units that could not be written, 2 for wrong arguments.
func run(args []string, getenv func(string) string, stdout io.Writer, log *logger) int {
	if len(args) == 1 {
		switch args[0] {
		case "--help", "-h":
			fmt.Fprint(stdout, usage)
			return 0
		case "--version":
			fmt.Fprintln(stdout, "partition-generator", version)
			return 0
		}
	}
	// Generators get three directories; one is enough for a look by hand, as with systemd's own.
	if len(args) != 1 && len(args) != 3 || !filepath.IsAbs(args[0]) {
		log.errorf("want the absolute path of an output directory, or the three of systemd.generator(7); see partition-generator --help")
		return 2
	}
	// In the initrd there is no kubelet, and its configuration would be that of another root.
	if getenv("SYSTEMD_IN_INITRD") == "1" {
		return 0
	}
	root := getenv("PARTITION_ROOT")
	if root != "" && !filepath.IsAbs(root) {
		log.errorf("PARTITION_ROOT=%s: want an absolute path", root)
		return 2
	}
	return generate(root, slices.NewOutput(root, args[0]), log)
}

func generate(root string, output slices.Output, log *logger) int {
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
		log.errorf("%v", err)
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
func keepLast(output slices.Output, plan *slices.Plan, log *logger) {
	restored, err := output.Restore(plan.Apply)
	if err != nil {
		log.errorf("the last good units cannot be kept: %v", err)
		return
	}
	if stdslices.Contains(restored, slices.SystemSlice) {
		log.errorf("the configuration is not applied; keeping the units of the last good one. Repair it and run systemctl daemon-reload")
		return
	}
	log.errorf("no system partition is made. Repair the configuration and run systemctl daemon-reload")
	if len(restored) == 0 && plan.Partition == nil {
		if err := output.Write(plan); err != nil {
			log.errorf("%v", err)
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
