package generator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/trialend"
)

// TestEndTrial: a trial ends at its time since the boot, without its timer and by no other clock.
func TestEndTrial(t *testing.T) {
	t.Parallel()
	const wall = `"until":"1970-01-01T00:00:00Z"` // which decides nothing
	for name, test := range map[string]struct {
		about string
		now   trialend.Moment
		over  bool
	}{
		"before its end":        {`{"from":"a.yaml",` + wall + `,"end":{"boot":"b","since":60000000000}}`, trialend.Moment{Boot: "b", Since: time.Minute - 1}, false},
		"at its end":            {`{"from":"a.yaml",` + wall + `,"end":{"boot":"b","since":60000000000}}`, trialend.Moment{Boot: "b", Since: time.Minute}, true},
		"in another boot":       {`{"from":"a.yaml","end":{"boot":"a","since":60000000000}}`, trialend.Moment{Boot: "b", Since: time.Second}, true},
		"without an end":        {`{"from":"a.yaml",` + wall + `}`, trialend.Moment{Boot: "b", Since: time.Hour}, false},
		"without a description": {"", trialend.Moment{Boot: "b", Since: time.Hour}, false},
		"without a clock":       {`{"from":"a.yaml","end":{"boot":"b","since":1}}`, trialend.Moment{}, false},
	} {
		root := t.TempDir()
		section := filepath.Join(root, kubeletconfig.TrialPath)
		err := errors.Join(os.MkdirAll(filepath.Dir(section), 0o755), os.WriteFile(section, nil, 0o644))
		if test.about != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, trialend.AboutFile), []byte(test.about), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		endTrial(root, test.now, NewLog(&said))
		_, err = os.Stat(section)
		if errors.Is(err, os.ErrNotExist) != test.over || strings.Contains(said.String(), "the trial of a.yaml is over") != test.over {
			t.Errorf("%s: %v, %q; want it over: %t", name, err, fmt.Sprint(&said), test.over)
		}
	}
}

// TestRunEndsTrial: only a run for systemd ends a trial that is over, and not one of
// systemd-analyze(1) or of an operator who looks at the output.
func TestRunEndsTrial(t *testing.T) {
	t.Parallel()
	for dir, ends := range map[string]bool{"run/systemd/generator": true, "tmp/look": false} {
		root := t.TempDir()
		section, about := filepath.Join(root, kubeletconfig.TrialPath), filepath.Join(root, trialend.AboutFile)
		err := errors.Join(
			os.CopyFS(root, os.DirFS("../../tests/generator/node")), os.MkdirAll(filepath.Dir(section), 0o755),
			os.WriteFile(section, nil, 0o644), os.WriteFile(about, []byte(`{"from":"a.yaml","end":{"boot":"b","since":1}}`), 0o644),
		)
		if err != nil {
			t.Fatal(err)
		}
		Run(root, filepath.Join(root, dir), trialend.Moment{Boot: "b", Since: time.Hour}, NewLog(io.Discard))
		if _, err := os.Stat(section); errors.Is(err, os.ErrNotExist) != ends {
			t.Errorf("%s: %v; want the trial to end: %t", dir, err, ends)
		}
	}
}
