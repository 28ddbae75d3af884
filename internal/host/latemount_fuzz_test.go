package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzMounts: with any fstab and mountinfo, each awaited unit is the mount unit of the path or of a
// folder above it, and no other path is late.
func FuzzMounts(f *testing.F) {
	const name = "/etc/kubernetes/a-b/config.yaml"
	f.Add("/dev/sda1 / ext4 defaults 0 1\nLABEL=k /etc/kubernetes xfs nofail,x-systemd.automount\n", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
	f.Add("#\n\na /etc/kubernetes//a-b/\n", "24 22 0:5 / /etc/kubernetes/a-b rw shared:2 - autofs systemd-1 rw\n")
	f.Fuzz(func(t *testing.T, fstab, mountinfo string) {
		root := t.TempDir()
		for path, text := range map[string]string{fstabPath: fstab, mountinfoPath: mountinfo} {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		late := ReadMounts(Root(root)).Late([]string{name}, nil)
		for _, unit := range append(late.MountUnits, late.OnDemand...) {
			if unit != "etc.mount" && !strings.HasPrefix(unit, "etc-kubernetes") || strings.ContainsAny(unit, "/ \n%") {
				t.Errorf("waits for %q", unit)
			}
		}
		for _, path := range late.Paths {
			if path != name {
				t.Errorf("%q is late", path)
			}
		}
		ReadMounts(Root(root)).Watchable(name)
	})
}
