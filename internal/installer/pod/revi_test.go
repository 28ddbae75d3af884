package pod

import (
	"testing"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/systemd"
)

// TestReviEmpty: while the pod of an uninstallation waits for CPU time after its stage, the install
// of a roll begins. Its state, backups and payload are what the way back needs.
func TestReviEmpty(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.answer = func(stage, roll string) (systemd.Ended, error) {
		f.result(stage, roll, outcome.Outcome{Sentences: []string{"uninstalled"}})
		if err := f.p.SetState(manifest.State{Roll: &manifest.Roll{Wish: manifest.Wish{Roll: "r2"}, Stage: manifest.Installed}}); err != nil {
			t.Fatal(err)
		}
		if err := f.p.WriteBytes(f.p.In(store.Settings), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return systemd.Ended{Result: "success"}, nil
	}
	o := f.p.Stage(t.Context(), sandbox.Uninstall, f.wish())
	if state, err := f.p.State(); err != nil || state.Roll == nil {
		t.Errorf("the roll under way is forgotten: %+v, %v, %+v", state, err, o)
	}
}
