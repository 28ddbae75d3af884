package slices

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodepartition/tests/script"
)

// TestApply: the limits of each unit that is active are written, also after one that cannot be.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script.Write(t, filepath.Join(dir, "systemctl"), `case $1 in
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
		// As systemd reads it.
		command := strings.TrimSuffix(strings.TrimPrefix(applyTo(test.units), `/bin/sh -c "`), `"`)
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(command, "$$", "$"))
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
