package samples

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReadMinutes: all minutes after a moment are found, and older files are not opened.
func TestReadMinutes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 0, 20*60, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	oldest := filepath.Join(dir, minutes.file(1))
	if err := errors.Join(os.Remove(oldest), os.Mkdir(oldest, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), dir); err == nil {
		t.Error("the oldest file is a folder, and Read has read it")
	}
	for _, first := range []int{12*60 + 1, 15 * 60, 20*60 - 1, 30 * 60} {
		h, err := ReadMinutes(t.Context(), dir, start.Add(time.Duration(first)*time.Minute-1))
		if err != nil {
			t.Errorf("from minute %d: %v", first, err)
			continue
		}
		found := map[time.Time]bool{}
		for _, s := range h.Minutes {
			found[s.Time] = true
		}
		for n := first; n < 20*60; n++ {
			if !found[start.Add(time.Duration(n)*time.Minute)] {
				t.Errorf("from minute %d: %d is missing", first, n)
			}
		}
		if len(h.Minutes) > 8*60 || len(h.Tens) > 0 || len(h.Partitions) != 1 {
			t.Errorf("from minute %d: %d minutes, %d tens, partitions %v", first, len(h.Minutes), len(h.Tens), h.Partitions)
		}
	}
	if _, err := ReadMinutes(t.Context(), filepath.Join(dir, "none"), start); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
