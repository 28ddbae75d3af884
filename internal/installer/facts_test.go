package installer

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"node-partition.io/node-partition/internal/installer/record"
)

// TestLabel: where SELinux enforces, the programs get the label of the host's programs, and the
// unit that of its units. If that fails the node goes back.
func TestLabel(t *testing.T) {
	for name, test := range map[string]struct {
		enforces bool
		fails    string
		status   record.Status
	}{
		"enforcing":        {true, "", record.Done},
		"it fails":         {true, "/partition-monitor.service", record.WentBack},
		"without a policy": {false, "", record.Done},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			if test.enforces {
				n.enforce("system_u:object_r:bin_t:s0")
			}
			labelled := map[string]string{}
			n.h.Programs = around{n, func(_ context.Context, line string) *ran {
				rest, is := strings.CutPrefix(line, "chcon --reference=")
				if !is {
					return nil
				}
				fields := strings.Fields(rest)
				for _, path := range fields[1:] {
					labelled[filepath.Base(path)] = strings.TrimPrefix(fields[0], n.root)
				}
				if test.fails != "" && strings.Contains(line, test.fails) {
					return &ran{err: errors.New("no context")}
				}
				return &ran{}
			}}
			got := n.do(n.order("v1", section))
			if got.Status != test.status || test.fails != "" && (got.Reason != record.SELinux || !strings.Contains(got.Text(), "no context")) {
				t.Errorf("%s: %+v; want %d", name, got, test.status)
			}
			for file, like := range map[string]string{monitorFile: "/usr/bin", generatorFile: "/usr/bin", serviceFile: "/usr/lib/systemd/system"} {
				if !test.enforces {
					like = ""
				}
				if labelled[file] != like {
					t.Errorf("%s: %s has the label of %q; want %q", name, file, labelled[file], like)
				}
			}
		})
	}
}
