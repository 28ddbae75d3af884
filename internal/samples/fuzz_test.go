package samples

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzSegment: whatever a crash or another program has left between two samples, both are read, and
// nothing else that was not written with its checksum.
func FuzzSegment(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\n"))
	f.Add([]byte("00000000 \n\n{}\n4d5c7a1b {\"time\":\"x\"}\n"))
	f.Add([]byte("83dcefb7 1\n"))
	first := Sample{Time: time.Unix(1_700_000_000, 0).UTC(), Boot: "a"}
	last := Sample{Time: time.Unix(1_700_000_060, 0).UTC(), Boot: "a"}
	f.Fuzz(func(t *testing.T, between []byte) {
		text, err := appendLine(nil, first)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, between...), '\n')
		if text, err = appendLine(text, last); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, minutes.file(1)), text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Read(t.Context(), dir)
		if err != nil || len(h.Minutes)+h.Broken < 2 {
			t.Fatalf("%d samples, %d broken, %v", len(h.Minutes), h.Broken, err)
		}
		found := 0
		for _, s := range h.Minutes {
			if s.Boot == "a" && (s.Time.Equal(first.Time) || s.Time.Equal(last.Time)) {
				found++
			}
		}
		if found < 2 {
			t.Errorf("%d of 2 samples beside %q", found, between)
		}
		h.Coarse()
	})
}
