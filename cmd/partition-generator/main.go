// Command partition-generator is a systemd generator (systemd.generator(7)). It writes the units of
// the system partition from the systemPartition section of the kubelet's configuration.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/trialend"
)

const usage = `Usage: partition-generator NORMAL-DIR [EARLY-DIR LATE-DIR]
       partition-generator --changed

A systemd generator: writes the units of the system partition, as the
systemPartition section of the kubelet's configuration asks for it, into
NORMAL-DIR. systemd runs it at boot and at every daemon-reload.

  --changed  judge /etc/kubernetes/node-partition.yaml after an edit: exit
             with 0 if systemd is to be reloaded for it, else with 1. A unit
             of this program runs it when the file has changed
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
			fmt.Fprintln(stdout, "partition-generator", buildversion.String())
			return 0
		}
	}
	changed := len(args) == 1 && args[0] == "--changed"
	// systemd passes three directories to a generator. One is enough for a run by hand, as with
	// systemd's own.
	if !changed && (len(args) != 1 && len(args) != 3 || !filepath.IsAbs(args[0])) {
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
	now, err := trialend.Now()
	if err != nil {
		log.Errorf("%v: a trial that is over is not noticed", err)
	}
	return generator.Run(root, args[0], now, log)
}
