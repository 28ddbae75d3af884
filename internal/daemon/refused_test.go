package daemon

import (
	"errors"
	"testing"

	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/decision"
)

// TestRefusals: an edit that was refused, and one that was taken back, make the monitor read the
// configuration again, once. What a reload of systemd has shown already does not.
func TestRefusals(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := refusals{changed: make(chan struct{}, 1)}
	typo := errors.New("memoryLimit: typo")
	for _, pass := range []struct {
		what    string
		refused string
		problem error
		want    bool
	}{
		{"nothing is refused", "", nil, false},
		{"an edit", typo.Error(), nil, true},
		{"the next pass", typo.Error(), typo, false},
		{"another edit", "cpuset: typo", typo, true},
		{"taken back", "", errors.New("cpuset: typo"), true},
		{"the next pass", "", nil, false},
		{"refused by a reload, which the monitor has followed", typo.Error(), typo, false},
		{"repaired by a reload, which the monitor has followed", "", nil, false},
		{"a text that the monitor has in other words", "other words", typo, true},
		{"the next pass", "other words", typo, false},
		{"repaired", "", nil, false},
		{"half a file, which a reload has read", "", errors.New("is empty"), true},
		{"the next pass, with what is never judged", "", errors.New("is empty"), false},
	} {
		if err := (decision.Watch{Refused: pass.refused}).Write(root); err != nil {
			t.Fatal(err)
		}
		r.look(hostfs.FS(root), pass.problem)
		got := false
		select {
		case <-r.changed:
			got = true
		default:
		}
		if got != pass.want {
			t.Errorf("%s: reads again: %t", pass.what, got)
		}
	}
}

// TestRefusalsDuringReload: what a reload refuses is left to that, so that one refusal counts once.
// A pass looks again when the configuration was read after the reload, or if that does not happen.
func TestRefusalsDuringReload(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := (decision.Watch{Refused: "memoryLimit: typo"}).Write(root); err != nil {
		t.Fatal(err)
	}
	r := refusals{changed: make(chan struct{}, 1)}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"systemd reloads", r.reload.note, false},
		{"it has reloaded", r.reload.note, false},
		{"it reloads again while that is read", func() { read := r.reload.reading(); r.reload.note(); read() }, false},
		{"and ends while that is read", func() { read := r.reload.reading(); r.reload.note(); read() }, false},
		{"it is read", func() { r.reload.reading()() }, true},
		{"a reload without an end", func() {
			r.last = [2]string{}
			r.reload.note()
			r.reload.since = r.reload.since.Add(-reloadPatience)
		}, true},
	} {
		step.do()
		r.look(hostfs.FS(root), nil)
		if got := len(r.changed) > 0; got != step.want {
			t.Errorf("%s: reads again: %t", step.what, got)
		}
		for len(r.changed) > 0 {
			<-r.changed
		}
	}
}
