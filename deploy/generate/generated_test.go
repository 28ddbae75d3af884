package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreCurrent: the files in the tree are up to date with their source.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := generated(deploy)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("deploy/%s is not what is generated: make generate writes it", name)
		}
	}
}
