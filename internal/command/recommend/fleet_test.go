package recommend

import (
	"strings"
	"testing"
	"time"

	"nodepartition/internal/recommend"
	"nodepartition/internal/samples"
)

// TestFolderName: the name of a node is the name of its folder, or of the one above history.
func TestFolderName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"copies/node-1": "node-1", "copies/node-1/": "node-1", "copies/node-1/history": "node-1", "/history": "/", "node-1/tens": "tens",
	} {
		if got := (Folder{Path: path}).name(); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}

// TestFleetHistory: a history without a shape has the size of its node, and no sample from before
// --since, or of a clock that was not set.
func TestFleetHistory(t *testing.T) {
	t.Parallel()
	m := made{pods: usual(), change: func(since time.Duration, s *samples.Sample) {
		if since == 10*time.Minute {
			s.Time, s.Up = time.Unix(600, 0).UTC(), 0
		}
	}}
	h := m.samples(samples.Node{CPUs: 96, MemoryBytes: 191<<30 + 300<<20, PageBytes: 4096})
	n := (&FleetOptions{}).history("node-1", "", h)
	if n.Shape != "96 CPUs, 191Gi" || n.LeastThreshold != 48<<20 || n.NodeBytes != 191<<30+300<<20 || n.Hours[0].Time.Year() == 1970 {
		t.Errorf("%+v, from %s", n, n.Hours[0].Time)
	}
	n = (&FleetOptions{Since: now.Add(-day)}).history("node-1", "m5.large", h)
	if len(n.Hours) < 24 || len(n.Hours) > 25 || n.Shape != "m5.large" {
		t.Errorf("%s: %d hours", n.Shape, len(n.Hours))
	}
}

// TestFleetVerdict: a shape without a section, and one that evicts at once, are problems.
func TestFleetVerdict(t *testing.T) {
	t.Parallel()
	good := shapeAdvice{ForShape: recommend.ForShape{Shape: "a"}, Section: map[string]any{fieldLimit: "1Gi"}}
	if err := (&FleetAdvice{Shapes: []shapeAdvice{good}}).Verdict(); err != nil {
		t.Error(err)
	}
	evicts := good
	evicts.EvictsAtOnce = true
	none := shapeAdvice{ForShape: recommend.ForShape{Shape: "b", NoSection: []string{"too short"}, Warnings: []string{"w"}}}
	a := &FleetAdvice{Shapes: []shapeAdvice{evicts, none}, Warnings: []string{"v"}}
	err := a.Verdict()
	if err == nil || !strings.Contains(err.Error(), "the section for a would evict at once") || !strings.Contains(err.Error(), "no section for b: too short") {
		t.Errorf("%v", err)
	}
	if all := a.AllWarnings(); len(all) != 2 || all[0] != "v" || all[1] != "b: w" {
		t.Errorf("%q", all)
	}
	if err := (&FleetAdvice{}).Verdict(); err == nil {
		t.Error("no shape is no problem")
	}
}
