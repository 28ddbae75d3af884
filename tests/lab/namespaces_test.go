//go:build node

package lab

import (
	"path/filepath"
	"testing"
)

// TestCommandMountsAreItsOwn: a command's mounts are not visible outside. Otherwise removing its
// tree would remove the content of what is mounted there.
func TestCommandMountsAreItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := command(t.Context(), "", nil, "sh", "-c", "mount -t tmpfs none "+dir+" && touch "+dir+"/file"); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, "file")) {
		t.Error("the mount is there")
	}
}
