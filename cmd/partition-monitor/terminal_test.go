package main

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

// shown runs partition-monitor on a terminal of some columns until it exits. It returns what a
// person sees.
func (n *fakeNode) shown(columns int, environment []string, args ...string) (status int, text string) {
	n.t.Helper()
	tty, screen := testkit.OpenTerminal(n.t, columns)
	cmd := n.program(args...)
	cmd.Env = append(cmd.Env, environment...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = tty, &errs
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	_ = tty.Close()
	text = testkit.Shown(n.t, screen)
	_ = cmd.Wait() // the status says it
	if errs.Len() > 0 {
		n.t.Errorf("%q: %s", args, &errs)
	}
	return cmd.ProcessState.ExitCode(), text
}

// TestOnTerminal: on a terminal the text of a command is wrapped to the width and coloured.
// TERM=dumb gets what a pipe gets. TestScreens has NO_COLOR.
func TestOnTerminal(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("max")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.Cgroup("kubepods.slice", map[string]string{"cpu.max": "1000 100000"})
	n.Write("/etc/bad.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 4GB, cpuset: 0-3, namespaces: [Kube_System]}\n"))
	for command, marks := range map[string][]string{
		"check --listen=":        {"\x1b[1;31merror\x1b[m    slice: ", "\x1b[33mwarning\x1b[m  collective-limit: ", "\x1b[33mwarning\x1b[m  service: "},
		"validate /etc/bad.yaml": {"\x1b[1;31merror\x1b[m     /etc/bad.yaml: ", "\x1b[2mleft out\x1b[m  memoryLimit: "},
		"status --listen=":       {"\x1b[32m● system\x1b[m ", "\x1b[33mService\x1b[m     "},
		"plan":                   {"\x1b[33mwarning\x1b[m  "},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			n, args := &fakeNode{n.Node, t}, strings.Fields(command)
			status, plain, _ := n.run(args...)
			got, coloured := n.shown(80, []string{"TERM=xterm"}, args...)
			for _, mark := range marks {
				if got != status || !strings.Contains(coloured, mark) {
					t.Errorf("status %d; want %d and %q in\n%s", got, status, mark, coloured)
				}
			}
			if text := ansi.Strip(coloured); !slices.Equal(strings.Fields(text), strings.Fields(plain)) || !fits(text, 80) {
				t.Errorf("want lines of 80 columns at most and not\n%s", text)
			}
			if _, got := n.shown(80, []string{"TERM=dumb"}, args...); got != plain {
				t.Errorf("TERM=dumb:\n%s\nwant\n%s", got, plain)
			}
		})
	}
}

// fits reports whether each line has some columns at most. A word that is longer stays whole.
func fits(text string, columns int) bool {
	return !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return ansi.StringWidth(line) > columns && len(strings.Fields(line)) > 1
	})
}

// TestStatusWatch: on a terminal each status replaces the one before. To a pipe, and on a terminal
// whose cursor does not move, one follows the other.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	tty, screen := testkit.OpenTerminal(t, 80)
	dumb, lines := testkit.OpenTerminal(t, 80)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	for _, test := range []struct {
		term    string
		out     *os.File
		from    io.Reader
		options string
		begin   string
	}{
		{"TERM=xterm", tty, screen, "", "\x1b[H\x1b[2JTime          "},
		{"TERM=dumb", dumb, lines, "", "Time          "},
		{"TERM=xterm", writer, reader, "--output=json", "{"},
	} {
		cmd := n.program(append([]string{"status", "--watch", "--listen="}, strings.Fields(test.options)...)...)
		cmd.Env = append(cmd.Env, test.term)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = test.out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = test.out.Close()
		readings, lines := 0, bufio.NewScanner(test.from)
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), test.begin) {
				continue
			}
			if readings++; readings == 2 {
				_ = cmd.Process.Signal(syscall.SIGTERM) // the readings say it
			}
		}
		_ = cmd.Wait() // a signal kills it
		if readings < 2 || errs.Len() > 0 {
			t.Errorf("%s %s: %d readings, %s", test.term, test.options, readings, &errs)
		}
	}
}

// TestClosedPipe: when the reader has enough, as head has, a command ends by SIGPIPE as other
// programs do, and says nothing.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Measure(partition.System, 24*time.Hour, fakenode.Nightly)
	for _, command := range []string{"recommend", "recommend -o json", "status --watch --listen=", "check --listen="} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = reader.Close()
		cmd := n.program(strings.Fields(command)...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = writer, &errs
		err = cmd.Run()
		_ = writer.Close()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != syscall.SIGPIPE || errs.Len() > 0 {
			t.Errorf("%s: %v, %s", command, err, &errs)
		}
	}
}

// TestProgress: a command that takes longer than two seconds shows on a terminal that it works, and
// for how long at most. Nothing remains when it has written. Elsewhere it shows nothing.
func TestProgress(t *testing.T) {
	t.Setenv("TERM", "xterm")
	tty, screen := testkit.OpenTerminal(t, 80)
	reader, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		for _, stderr := range []*os.File{tty, pipe} {
			var stdout bytes.Buffer
			app := &cli.App{Writer: &stdout, ErrWriter: stderr}
			action := withProgress(func(c *cli.Context) error {
				<-time.After(3500 * time.Millisecond)
				_, err := io.WriteString(c.App.ErrWriter, "done\n")
				return err
			}, stderr)
			flags := flag.NewFlagSet("status", flag.ContinueOnError)
			flags.Duration(flagTimeout, time.Minute, "")
			c := cli.NewContext(app, flags, nil)
			c.Command = &cli.Command{Name: "status"}
			if err := action(c); err != nil {
				t.Error(err)
			}
			_ = stderr.Close()
		}
	})
	if got, want := testkit.Shown(t, screen), "\r\x1b[Kstatus: 2 s, 1m0s at most\r\x1b[Kstatus: 3 s, 1m0s at most\r\x1b[Kdone\n"; got != want {
		t.Errorf("on a terminal: %q; want %q", got, want)
	}
	if got := testkit.Shown(t, reader); got != "done\n" {
		t.Errorf("through a pipe: %q", got)
	}
}
