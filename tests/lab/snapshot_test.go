package lab

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSnapshotKey: a snapshot is never used for another image, another qemu, another machine or
// other keys, because each has a key of its own.
func TestSnapshotKey(t *testing.T) {
	dir := t.TempDir()
	emulator := func(name, version string) string {
		path := filepath.Join(dir, name)
		writeScript(t, path, "echo "+version)
		return path
	}
	old := emulator("old", "QEMU emulator version 10.0.0")
	img, k := image{dir: "/cache/images/trixie-1", qemu: old}, keys{"/cache/keys/ssh-1"}
	keyFor := func(img image, k keys, a accel) key {
		t.Helper()
		key, err := snapshotKey(t.Context(), img, k, a)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := keyFor(img, k, softwareEmulation)
	if again := keyFor(img, k, softwareEmulation); again != first {
		t.Errorf("the same inputs have the keys %s and %s", first, again)
	}
	seen := map[key]string{first: "the first"}
	for name, other := range map[string]key{
		"another image": keyFor(image{dir: "/cache/images/trixie-2", qemu: old}, k, softwareEmulation),
		"another qemu":  keyFor(image{dir: img.dir, qemu: emulator("new", "QEMU emulator version 10.0.1")}, k, softwareEmulation),
		"another CPU":   keyFor(image{dir: img.dir, qemu: old, cpu: ",avx=off"}, k, softwareEmulation),
		"other keys":    keyFor(img, keys{"/cache/keys/ssh-2"}, softwareEmulation),
		"KVM":           keyFor(img, k, hardwareKVM),
	} {
		if seen[other] != "" {
			t.Errorf("%s has the key of %s", name, seen[other])
		}
		seen[other] = name
	}
	// The same file, updated in place.
	emulator("old", "QEMU emulator version 10.0.2")
	if updated := keyFor(img, k, softwareEmulation); seen[updated] != "" {
		t.Errorf("an updated qemu has the key of %s", seen[updated])
	}
	if _, err := snapshotKey(t.Context(), image{dir: img.dir, qemu: filepath.Join(dir, "none")}, k, softwareEmulation); err == nil {
		t.Error("a qemu that is not there has a key")
	}
}

// TestRestoredNodesRefuseWhatABootGives: an option without effect on a restored node is an error.
func TestRestoredNodesRefuseWhatABootGives(t *testing.T) {
	for name, o := range map[string]Options{
		"LateVar": {LateVar: true}, "KernelArgs": {KernelArgs: []string{"x"}}, "NoPods": {NoPods: true}, "memory": {MemoryMiB: 1024}, "CPUs": {CPUs: 1},
	} {
		o.Restore = true
		if _, err := o.withDefaults(); err == nil || !strings.Contains(err.Error(), "needs a boot") && !strings.Contains(err.Error(), "need a boot") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := (Options{Restore: true}).withDefaults(); err != nil {
		t.Error(err)
	}
}
