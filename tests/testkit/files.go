package testkit

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
)

// Files returns the paths and the contents of the files that match any of the patterns of
// filepath.Glob, pattern by pattern. Each matches one at least.
func Files(tb testing.TB, patterns ...string) iter.Seq2[string, string] {
	tb.Helper()
	return func(yield func(path, text string) bool) {
		for _, pattern := range patterns {
			paths, err := filepath.Glob(pattern)
			if err != nil || len(paths) == 0 {
				tb.Fatalf("%s: %d files: %v", pattern, len(paths), err)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					tb.Fatal(err)
				}
				if !yield(path, string(text)) {
					return
				}
			}
		}
	}
}

// WriteFile writes a file, and makes its folder if it is missing.
func WriteFile(tb testing.TB, path, text string) {
	tb.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		tb.Fatal(err)
	}
}

// WriteFiles writes files below a folder, by their names there.
func WriteFiles(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		WriteFile(tb, filepath.Join(dir, name), text)
	}
}
