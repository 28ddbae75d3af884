package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// localShell starts a shell as on a node, without ssh.
func localShell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.Command("bash", "-c", shellLoop)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	s, err := newShell(stdin, iotest.OneByteReader(stdout), stderr)
	if err != nil {
		t.Fatal(err)
	}
	s.abort = func() { _ = cmd.Process.Kill() }
	return s
}

// TestShellRun: each command has outputs and a status of its own, and no command changes the next.
func TestShellRun(t *testing.T) {
	s := localShell(t)
	for _, test := range []struct {
		command string
		want    result
	}{
		{"echo out; echo why >&2; exit 3", result{"out\n", "why\n", 3}},
		{"true", result{}},
		{"", result{}},
		{"cd / && x=1; exec 2>&1; nonsense 2>/dev/null", result{status: 127}},
		{`test "$PWD" != / && echo "<$x>"`, result{stdout: "<>\n"}},
		{"set -e; false; echo after", result{status: 1}},
		{"false; echo after", result{stdout: "after\n"}},
		{"cat; printf 'no newline'", result{stdout: "no newline"}},
		{"head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2", result{strings.Repeat("\x00", 100_000), strings.Repeat("\x00", 100_000), 0}},
		{"echo 'lab-'; echo '\\'; printf %d 0", result{stdout: "lab-\n\\\n0"}},
		{"sh -c 'kill -TERM $$'", result{status: 143}},
		{"echo $SYSTEMD_BUS_TIMEOUT", result{stdout: "120s\n"}},
	} {
		got, err := s.run(t.Context(), test.command)
		if err != nil || got != test.want && (test.want.status != 143 || got.status != 143) {
			t.Errorf("%s: %+v, error %v; want %+v", test.command, got, err, test.want)
		}
	}
	if _, err := s.run(t.Context(), "echo \x00"); err == nil {
		t.Error("a command with a NUL byte was sent")
	}
}

// TestShellEnds: a command whose shell ends has no status. What it printed is there.
func TestShellEnds(t *testing.T) {
	got, err := localShell(t).run(t.Context(), "echo before; kill -KILL $$")
	if !errors.Is(err, io.ErrUnexpectedEOF) || got.stdout != "before\n" {
		t.Errorf("%+v, error %v", got, err)
	}
}

// TestShellContext: a command that takes too long ends with its context.
func TestShellContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
	defer cancel()
	if _, err := localShell(t).run(ctx, "exec sleep 2 >/dev/null 2>&1"); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// TestShellLateOutput: what an earlier command's process prints later is not taken for the output
// of the next command.
func TestShellLateOutput(t *testing.T) {
	s := localShell(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if _, err := s.run(t.Context(), "mkfifo "+fifo+"; { read -r _ <"+fifo+"; echo late; echo >"+fifo+"; } &"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo, []byte("now\n"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(fifo); err != nil { // it has been printed
		t.Fatal(err)
	}
	if got, err := s.run(t.Context(), "echo next"); err == nil || !strings.Contains(err.Error(), `"late\n"`) {
		t.Errorf("%+v, error %v", got, err)
	}
}
