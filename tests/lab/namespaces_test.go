//go:build node

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

// childCommand names the file with a line for each sign of life of TestCommandChild's grandchild.
const childCommand = "LAB_TEST_CHILD_COMMAND"

// grandchild is a script whose child runs on in a session of its own, unless it is killed.
const grandchild = `setsid sleep 86399 & echo started >"$0"; wait`

// TestCommandChild is not a test: TestCommandLeavesNothingRunning runs it in another process.
func TestCommandChild(t *testing.T) {
	if file := os.Getenv(childCommand); file != "" {
		t.Fatal(command(t.Context(), "", nil, "sh", "-c", grandchild, file))
	}
}

// TestCommandLeavesNothingRunning: no child of a command survives the end of the context or of the
// process.
func TestCommandLeavesNothingRunning(t *testing.T) {
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

// TestCommandMountsAreItsOwn: a command's mounts are not visible outside. Otherwise removing its
// tree would remove the content of what is mounted there.
func TestCommandMountsAreItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := command(t.Context(), "", nil, "sh", "-c", "mount -t tmpfs none "+dir+" && touch "+dir+"/file"); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, "file")) {
		t.Error("the mount is there")
	}
}
