package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/internal/daemon"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/journallog"
	"node-partition.io/node-partition/internal/node"
)

func runCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "place and evict pods, serve metrics: partition-monitor.service",
		Flags: commonFlags(
			textFlag(node.FlagWebConfig, ""),
			textFlag(node.FlagTextfile, ""),
			boolFlag(node.FlagValidate),
			durationFlag(node.FlagTick, 30*time.Second),
			boolFlag(node.FlagPerPod),
			boolFlag(node.FlagDebug),
		),
		Action: func(c *cli.Context) error {
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			if c.Duration(node.FlagTick) < time.Second {
				return usageError{fmt.Errorf("--%s=%s: want a second or more", node.FlagTick, c.Duration(node.FlagTick))}
			}
			webConfig, err := readPath(c, n, node.FlagWebConfig)
			if err != nil {
				return err
			}
			folder, err := readPath(c, n, node.FlagTextfile)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if c.Bool(node.FlagDebug) {
				level = slog.LevelDebug
			}
			log := journallog.New(os.Stderr, level)
			if err := lockMemory(); err != nil {
				log.Warn("the kernel may drop the program's code while the node is short of memory; set LimitMEMLOCK=infinity", "error", err)
			}
			go readAhead(log) // nobody waits for it
			return daemon.Run(c.Context, daemon.Options{
				Options: common,
				Tick:    c.Duration(node.FlagTick),
				PerPod:  c.Bool(node.FlagPerPod),
				Version: buildversion.String(),
				Log:     log,

				Validate: c.Bool(node.FlagValidate),

				WebConfig: webConfig,
				Textfile:  folder,
			})
		},
	}
}

// lockMemory keeps in memory the program's code and the heap that it has used. The kernel reclaims
// mapped files and swaps first, and so would drop the code that evicts when the node is short of
// memory. Of the heap, what is never used is not allocated (MCL_ONFAULT, kernel 4.4). It needs
// LimitMEMLOCK=infinity, and no capability: with another limit a later allocation might end the
// program.
func lockMemory() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil || limit.Cur != unix.RLIM_INFINITY {
		return cmp.Or(os.NewSyscallError("getrlimit", err), fmt.Errorf("%d bytes may be locked", limit.Cur))
	}
	return os.NewSyscallError("mlockall", unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT))
}

// readAhead reads what else the first eviction would read, from a disk for which the whole node may
// wait: the time zone, which Go reads when it first formats a time, and the code that has not run
// yet, which MCL_ONFAULT leaves on the disk. On a node that thrashed the kernel killed first (Linux
// 6.12, the league's load thrash). Linux before 5.14 cannot read the code ahead (EINVAL).
func readAhead(log *slog.Logger) {
	_, _ = time.Now().Zone()
	mappings, err := os.ReadFile("/proc/self/maps")
	for mapping := range strings.Lines(string(mappings)) {
		var begin, end uintptr
		// The program is static: it has no other file.
		if _, err := fmt.Sscanf(mapping, "%x-%x", &begin, &end); err != nil || !strings.Contains(mapping, "/") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_POPULATE_READ); errno != 0 {
			err = errors.Join(err, os.NewSyscallError("madvise", errno))
		}
	}
	if err != nil {
		log.Info("the first eviction may have to read some of the program's code from the disk", "error", err)
	}
}

// readPath returns the path of a flag on n, empty if the flag is not set, or a usageError.
func readPath(c *cli.Context, n host.Node, name string) (string, error) {
	path := c.String(name)
	switch {
	case path == "":
		return "", nil
	case !filepath.IsAbs(path):
		return "", usageError{fmt.Errorf("--%s=%s: want an absolute path", name, path)}
	}
	return n.Path(path), nil
}
