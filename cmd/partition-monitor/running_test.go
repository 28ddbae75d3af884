package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/testkit"
)

// TestApplyServiceFlags: status and check use the flags of the running service, unless the user
// sets them.
func TestApplyServiceFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		service []string // nil if none is running
		user    []string
		want    string // listen, move and cooldown
		warned  string
	}{
		"none runs":              {nil, nil, "127.0.0.1:9948 auto 5m0s", ""},
		"as it is delivered":     {[]string{"run"}, nil, "127.0.0.1:9948 auto 5m0s", ""},
		"with flags":             {[]string{"run", "--listen=:1", "--move", "never", "--eviction-cooldown=1m", "--debug"}, nil, ":1 never 1m0s", ""},
		"an empty flag":          {[]string{"run", "--listen="}, nil, " auto 5m0s", ""},
		"the user sets another":  {[]string{"run", "--listen=:1", "--move=never"}, []string{"--move=live"}, ":1 live 5m0s", ""},
		"of another version":     {[]string{"run", "--listen=:1", "--not-here"}, nil, "127.0.0.1:9948 auto 5m0s", "not-here"},
		"another program of its": {[]string{"version"}, nil, "127.0.0.1:9948 auto 5m0s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := host.Below(t.TempDir())
			write := func(path, text string) {
				t.Helper()
				testkit.WriteFile(t, path, text)
			}
			if tc.service != nil {
				// The first process has ended since.
				write(filepath.Join(string(n.Cgroups), "system.slice/partition-monitor.service", "cgroup.procs"), "41\n42\n")
				write(filepath.Join(n.Proc, "42", "cmdline"), strings.Join(append([]string{"/usr/bin/partition-monitor"}, tc.service...), "\x00")+"\x00")
			}
			var stderr bytes.Buffer
			var got string
			app := newApp(host.This(), &stderr, &stderr)
			app.Command("status").Action = func(c *cli.Context) error {
				applyServiceFlags(c, n)
				got = fmt.Sprint(c.String(node.FlagListen), " ", c.String(node.FlagMove), " ", c.Duration(node.FlagCooldown))
				return nil
			}
			if err := runApp(t, app, append([]string{"status"}, tc.user...)...); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("uses %q, want %q", got, tc.want)
			}
			if said := stderr.String(); (said == "") != (tc.warned == "") || !strings.Contains(said, tc.warned) {
				t.Errorf("said %q, want something of %q", said, tc.warned)
			}
		})
	}
}
