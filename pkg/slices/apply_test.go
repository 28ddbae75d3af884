package slices

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/testkit"
)

// TestApply: the limits of each unit that is active are written, also after one that cannot be.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "systemctl"), `case $1 in
is-active) test "$3" != ended.slice ;;
set-property) echo "$3" >>"$LOG"; test "$3" != refused.slice ;;
esac`)
	for _, test := range []struct {
		name           string
		units, written []string
		fails          bool
	}{
		{"one ended", []string{"a.slice", "ended.slice", "b.slice"}, []string{"a.slice", "b.slice"}, false},
		{"all ended", []string{"ended.slice"}, nil, false},
		{"one refused", []string{"refused.slice", "b.slice"}, []string{"refused.slice", "b.slice"}, true},
	} {
		log := filepath.Join(dir, strings.ReplaceAll(test.name, " ", "-"))
		cmd := exec.Command("/bin/sh", "-c", shellText(applyTo(test.units)))
		cmd.Env = []string{"PATH=" + dir, "LOG=" + log}
		if out, err := cmd.CombinedOutput(); (err != nil) != test.fails {
			t.Errorf("%s: %v, %s", test.name, err, out)
		}
		written, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if got := strings.Fields(string(written)); !slices.Equal(got, test.written) {
			t.Errorf("%s: written %q, want %q", test.name, got, test.written)
		}
	}
}

// shellText returns the text that systemd gives the shell of a command.
func shellText(command string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(command, `/bin/sh -c "`), `"`), "$$", "$")
}

// TestSettled: the service that reads a new section is skipped, and its path unit waits on, if the
// section is removed while the service waits.
func TestSettled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "sleep"), `test "$1" = 1 && test -z "$REMOVED" || exec /bin/rm "$REMOVED"`)
	condition := settled(AwaitSectionService)[0]
	if condition.Name != "ExecCondition" {
		t.Fatalf("%+v", condition)
	}
	section := filepath.Join(dir, "section.yaml")
	for _, removed := range []string{"", section} {
		if err := os.WriteFile(section, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(shellText(condition.Value), kubeletconfig.OverridePath, section))
		cmd.Env = []string{"PATH=" + dir, "REMOVED=" + removed}
		// Status 1 to 254 skips a service (systemd.service(5)).
		var exit *exec.ExitError
		err := cmd.Run()
		if runs := err == nil; runs != (removed == "") || err != nil && !errors.As(err, &exit) {
			t.Errorf("removed %q: %v", removed, err)
		}
	}
}
