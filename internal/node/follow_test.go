package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestWatch: only the file itself counts, and the folders that lead to it.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := ShortDir(t)
	w, err := watch(filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, name := range []string{"placement.json", "lock", "control"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.wait(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	gone, err := watch(filepath.Join(dir, "sub", "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := gone.wait(t.Context(), time.Hour); err != nil {
		t.Errorf("%v; want that the end of the folder ends the wait", err)
	}
}

// TestWatchWhileMade: a folder that is made while the watch begins is not missed. Within a few of
// these rounds the two meet.
func TestWatchWhileMade(t *testing.T) {
	t.Parallel()
	parent := ShortDir(t)
	late, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for round := range 100 {
		dir := filepath.Join(parent, strconv.Itoa(round))
		made := make(chan error, 1)
		go func() { made <- os.Mkdir(dir, 0o700) }()
		w, err := watch(filepath.Join(dir, "control"))
		if err := errors.Join(err, <-made); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "control"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err = w.wait(late, time.Hour)
		w.close()
		if err != nil {
			t.Fatalf("round %d: neither the folder nor the file ended the wait: %v", round, err)
		}
	}
}
