package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	list := "0755 ${BIN}/a ${PREFIX}/bin/a\n0644 conf/b ${SYSTEMD_DIR}/system/b\n"
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := Installed(dir, "list", "/build")
	if err != nil || len(all) != 2 || all[0].Source != "/build/a" || all[0].Path != "/usr/bin/a" || all[0].Mode != 0o755 {
		t.Errorf("%+v, %v", all, err)
	}
	some, err := Installed(dir, "list", "/build", "b", "c")
	if err != nil || len(some) != 1 || some[0].Source != filepath.Join(dir, "conf/b") || some[0].Path != "/usr/lib/systemd/system/b" {
		t.Errorf("%+v, %v", some, err)
	}
	if _, err := Installed(dir, "nothing", "/build"); err == nil {
		t.Error("no list, and no error")
	}
}
