package lab

import (
	"os"
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
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+version+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := emulator("old", "QEMU emulator version 10.0.0")
	img, k := image{"/cache/images/trixie-1", old, ""}, keys{"/cache/keys/ssh-1"}
	key := func(img image, k keys, a accel) Key {
		t.Helper()
		key, err := snapshotKey(t.Context(), img, k, a)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := key(img, k, softwareEmulation)
	if again := key(img, k, softwareEmulation); again != first {
		t.Errorf("the same inputs have the keys %s and %s", first, again)
	}
	seen := map[Key]string{first: "the first"}
	for name, other := range map[string]Key{
		"another image": key(image{"/cache/images/trixie-2", old, ""}, k, softwareEmulation),
		"another qemu":  key(image{img.dir, emulator("new", "QEMU emulator version 10.0.1"), ""}, k, softwareEmulation),
		"another CPU":   key(image{img.dir, old, ",avx=off"}, k, softwareEmulation),
		"other keys":    key(img, keys{"/cache/keys/ssh-2"}, softwareEmulation),
		"KVM":           key(img, k, hardwareKVM),
	} {
		if seen[other] != "" {
			t.Errorf("%s has the key of %s", name, seen[other])
		}
		seen[other] = name
	}
	// The same file, updated in place.
	emulator("old", "QEMU emulator version 10.0.2")
	if updated := key(img, k, softwareEmulation); seen[updated] != "" {
		t.Errorf("an updated qemu has the key of %s", seen[updated])
	}
	if _, err := snapshotKey(t.Context(), image{img.dir, filepath.Join(dir, "none"), ""}, k, softwareEmulation); err == nil {
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
