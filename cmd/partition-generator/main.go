// Command partition-generator is a systemd generator (systemd.generator(7)). It writes the units of
// the system partition from the systemPartition section of the kubelet's configuration.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/generator"
	"nodepartition/internal/oneline"
	"nodepartition/internal/quantity"
	"nodepartition/internal/systemctl"
	"nodepartition/internal/trialend"
	"nodepartition/pkg/slices"
)

// version is set by the Makefile, from git.
var version = "unknown"

const usage = `Usage: partition-generator NORMAL-DIR [EARLY-DIR LATE-DIR]
       partition-generator --changed
       partition-generator --interrupts CPUS|none
       partition-generator --irqbalance CPUS

A systemd generator: writes the units of the system partition, as the
systemPartition section of the kubelet's configuration asks for it, into
NORMAL-DIR. systemd runs it at boot and at every daemon-reload.

  --changed  judge /etc/kubernetes/node-partition.yaml after an edit: exit
             with 0 if systemd is to be reloaded for it, else with 1. A unit
             of this program runs it when the file has changed
  --interrupts CPUS
             keep interrupts of devices off CPUs, or off none, for IRQ_CPUS in
             /etc/default/node-partition. A unit of this program runs it
  --irqbalance CPUS
             have irqbalance leave out CPUs. A drop-in of this program runs it
             before irqbalance starts
  --help     show this text
  --version  show the version

Environment:
  PARTITION_ROOT  read all files, and keep the state, below this directory, and
                  run no program
`

func main() {
	// One goroutine, one thread. The Go runtime would move us between threads at slow system calls
	// without any gain, and tests kill this program at its n-th system call, which strace counts by
	// thread.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, generator.OpenLog(os.Getenv)))
}

// run runs the program, and returns its exit status: 0, also if there is no partition to make, 1
// for an invalid configuration or for units that could not be written, and 2 for wrong arguments.
func run(args []string, getenv func(string) string, stdout io.Writer, log *generator.Log) int {
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
	changed := len(args) == 1 && args[0] == "--changed"
	kept := len(args) == 2 && (args[0] == "--interrupts" || args[0] == "--irqbalance")
	// systemd passes three directories to a generator. One is enough for a run by hand, as with
	// systemd's own.
	if !changed && !kept && (len(args) != 1 && len(args) != 3 || !filepath.IsAbs(args[0])) {
		log.Errorf(
			"want the absolute path of an output directory, or the three of systemd.generator(7); see partition-generator --help",
		)
		return 2
	}
	// The initrd has no kubelet, and its configuration would belong to another root.
	if getenv("SYSTEMD_IN_INITRD") == "1" {
		return 0
	}
	root := getenv("PARTITION_ROOT")
	if root != "" && !filepath.IsAbs(root) {
		log.Errorf("PARTITION_ROOT=%s: want an absolute path", root)
		return 2
	}
	if changed {
		return generator.Changed(root, log)
	}
	if kept {
		return keepOff(args[0], args[1], root, getenv, log)
	}
	now, err := trialend.Now()
	if err != nil {
		log.Errorf("%v: a trial that is over is not noticed", err)
	}
	return generator.Run(root, args[0], now, log)
}

// keepOff keeps interrupts off the CPUs of a list.
func keepOff(command, list, root string, getenv func(string) string, log *generator.Log) int {
	var cpus cpuset.CPUSet
	if list != slices.NoCPUs {
		var err error
		if cpus, err = quantity.ParseCPUs(list); err != nil {
			log.Errorf("%s %s: %v", command, oneline.Quote(list), err)
			return 2
		}
	}
	if command == "--irqbalance" {
		return generator.Ban(root, getenv, cpus, log)
	}
	var systemd *systemctl.Programs
	//guard: with a root no systemd is asked
	if root == "" {
		// The systemd of this machine does not run below a root, and the programs there may be
		// anybody's.
		systemd = new(systemctl.Programs)
	}
	return generator.Interrupts(context.Background(), root, systemd, cpus, log)
}
