package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
)

const flagRoot = "root"

// readers lists the commands that can read another node.
var readers = []string{"plan", "check", "status", "recommend", "validate"}

// rootFlag returns the flag for the root of another node. It stands before the command or after it.
func rootFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  flagRoot,
		Usage: "read the node whose files are below `DIR`, a mounted disk or an unpacked sosreport, and ask nothing of this one",
	}
}

// givenRoot returns the value of the flag, wherever it stands.
func givenRoot(c *cli.Context) (dir string, given bool) {
	for _, level := range c.Lineage() {
		if level.Command != nil && slices.Contains(level.LocalFlagNames(), flagRoot) {
			return level.String(flagRoot), true
		}
	}
	return "", false
}

// nodeOf returns the node that a command reads: n without the flag.
func nodeOf(c *cli.Context, n host.Node) (host.Node, error) {
	dir, given := givenRoot(c)
	if !given {
		return n, nil
	}
	if dir == "" {
		return n, usageError{fmt.Errorf("--%s: want a folder", flagRoot)}
	}
	other, err := host.Open(dir)
	if err != nil {
		return n, unreadable{fmt.Errorf("--%s: %w", flagRoot, err)}
	}
	if !slices.ContainsFunc(topFolders, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}) {
		return n, unreadable{fmt.Errorf("--%s=%s: not the files of a node: none of %s is there", flagRoot, dir, strings.Join(topFolders, ", "))}
	}
	return other, nil
}

// topFolders lists the folders of a root. The files of a node are in one of them at least.
var topFolders = []string{"etc", "proc", "run", "sys", "var"}

// unreadable makes the exit status 2: what was to be judged cannot be read.
type unreadable struct{ error }

// noRoot returns an error if a command that reads this node alone has the flag.
func noRoot(c *cli.Context) error {
	if _, given := givenRoot(c); given {
		return rootRefused(c.Command.Name)
	}
	return nil
}

func rootRefused(command string) error {
	return usageError{fmt.Errorf("%s: --%s is for %s", command, flagRoot, strings.Join(readers, ", "))}
}
