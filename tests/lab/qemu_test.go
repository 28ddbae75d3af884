package lab

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// writeScript writes a script of /bin/sh to path, which may exist. No other test may fork while the
// file is open for writing: the kernel does not execute a file that a child still holds open
// (ETXTBSY, golang.org/issue/22315).
func writeScript(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeQemu returns an image whose machines are a shell script.
func fakeQemu(t *testing.T, text string) image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	writeScript(t, path, text)
	return image{qemu: path}
}

func TestStartTriesAnotherPort(t *testing.T) {
	for name, tc := range map[string]struct {
		script, want string
		starts       int
	}{
		"ports are taken":  {"echo Could not set up host forwarding rule >&2; exit 1", "host forwarding", maxPorts},
		"another reason":   {"echo no such machine >&2; exit 1", "no such machine", 1},
		"the guest panics": {`for a; do case $a in *path=*) echo "Kernel panic - not syncing" >>"${a##*path=}";; esac; done`, "the machine ended", maxPanics},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			img := fakeQemu(t, "echo x >>"+filepath.Join(dir, "starts")+"\n"+tc.script+"\n")
			t.Setenv("LAB_ARTIFACTS", filepath.Join(dir, "artifacts"))
			n := &Node{Name: "n", Dir: filepath.Join(dir, "n"), conn: &connection{node: "n"}}
			n.options.Progress = func(string) {}
			n.machine = machine{Image: img, Console: n.ConsolePath(), Accel: softwareEmulation, NoReboot: true}
			if err := os.Mkdir(n.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := n.startUp(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
			if starts := fileSize(filepath.Join(dir, "starts")) / 2; starts != int64(tc.starts) {
				t.Errorf("started %d times, want %d", starts, tc.starts)
			}
			// The messages are kept, and the error names their folder.
			kept := filepath.Join(dir, "artifacts", "start-n")
			if err := n.startFailed(t.Context(), err); !strings.Contains(err.Error(), kept) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
			for _, file := range []string{"console.log", "qemu.log"} {
				if !exists(filepath.Join(kept, file)) {
					t.Errorf("%s is not kept", file)
				}
			}
		})
	}
}
