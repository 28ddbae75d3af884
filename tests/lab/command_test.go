package lab

import (
	"errors"
	"os"
	"strings"
	"testing"
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
