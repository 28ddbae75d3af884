package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

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
