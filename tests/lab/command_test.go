package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

func TestCommandSaysWhatFailed(t *testing.T) {
	for name, run := range map[string]func(script string) error{
		"command":     func(script string) error { return command(t.Context(), "", nil, "sh", "-c", script) },
		"hostCommand": func(script string) error { return hostCommand(t.Context(), nil, "sh", "-c", script) },
	} {
		if err := run("true"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := run("echo out; echo why >&2; exit 3"); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: why") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// cannot skips a test that this user cannot run, and fails it in CI, where it has to run.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// childCommand names the file whose lines say that the grandchild of TestCommandChild lives.
const childCommand = "LAB_TEST_CHILD_COMMAND"

// grandchild is a script whose child goes on when nobody ends it, in a session of its own.
const grandchild = `setsid sleep 86399 & echo started >"$0"; wait`

// TestCommandChild is not a test: TestCommandLeavesNothingRunning runs it in another process.
func TestCommandChild(t *testing.T) {
	if file := os.Getenv(childCommand); file != "" {
		t.Fatal(command(t.Context(), "", nil, "sh", "-c", grandchild, file))
	}
}

// TestCommandLeavesNothingRunning: neither the end of the context nor that of the process leaves a child of a command.
func TestCommandLeavesNothingRunning(t *testing.T) {
	if err := exec.Command("unshare", "--pid", "--fork", "true").Run(); err != nil {
		cannot(t, "no process namespaces here: %v", err)
	}
	file := filepath.Join(t.TempDir(), "started")
	started := func(context.Context) (bool, string, error) {
		_, err := os.Stat(file)
		return err == nil, "", err
	}
	gone := func(context.Context) (bool, string, error) {
		left, err := sleepers()
		return len(left) == 0, strings.Join(left, " "), err
	}
	t.Run("killed", func(t *testing.T) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCommandChild$")
		cmd.Env = append(os.Environ(), childCommand+"="+file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := waitFor(t.Context(), "the command", pollInterval, started)
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		if err := errors.Join(err, waitFor(t.Context(), "the end of its children", pollInterval, gone)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		ended := make(chan error, 1)
		go func() { ended <- command(ctx, "", nil, "sh", "-c", grandchild, file) }()
		if err := waitFor(t.Context(), "the command", pollInterval, started); err != nil {
			t.Error(err)
		}
		cancel(enough)
		if err := <-ended; !errors.Is(err, enough) {
			t.Errorf("error %v", err)
		}
		if err := waitFor(t.Context(), "the end of its children", pollInterval, gone); err != nil {
			t.Error(err)
		}
	})
}

// sleepers returns the processes that grandchild has left.
func sleepers() ([]string, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range all {
		if args, err := p.CmdLine(); err == nil && slices.Equal(args, []string{"sleep", "86399"}) {
			found = append(found, strings.Join(args, " "))
		}
	}
	return found, nil
}

// A mount of a command is not seen outside: who removes its tree would remove what is mounted there.
func TestCommandMountsAreItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		cannot(t, "not root: mounts nothing")
	}
	dir := t.TempDir()
	if err := command(t.Context(), "", nil, "sh", "-c", "mount -t tmpfs none "+dir+" && touch "+dir+"/file"); err != nil {
		cannot(t, "mounts are refused here: %v", err)
	}
	if exists(filepath.Join(dir, "file")) {
		t.Error("the mount is there")
	}
}

func TestWithTemp(t *testing.T) {
	entry := t.TempDir()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		err := withTemp(entry, func(env []string) error {
			script := `touch "$TMPDIR/x" "$GOTMPDIR/y"; case $TMPDIR in ` + entry + `/*) ;; *) exit 1;; esac`
			return errors.Join(command(t.Context(), "", env, "sh", "-c", script), want)
		})
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if left, err := os.ReadDir(entry); err != nil || len(left) != 0 {
			t.Errorf("left in the entry: %v, %v", left, err)
		}
	}
}
