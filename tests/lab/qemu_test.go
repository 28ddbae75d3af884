package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMachineArgs(t *testing.T) {
	m := machine{
		Name: "n", Image: image{dir: "/img"}, Root: disk{"/n/root,1.qcow2", "qcow2"}, Seed: "/n/seed.tar",
		Var: &disk{"/n/var.qcow2", "qcow2"}, Console: "/n/console.log", SSHPort: 2222, MemoryMiB: 3072, CPUs: 3,
		Accel: softwareEmulation, KernelArgs: []string{"node_partition=0"},
	}
	args := m.args()
	value := func(option string) []string {
		var all []string
		for i, a := range args[:len(args)-1] {
			if a == option {
				all = append(all, args[i+1])
			}
		}
		return all
	}
	for option, want := range map[string]string{
		"-name": "n", "-smp": "3", "-m": "3072", "-kernel": "/img/kernel", "-initrd": "/img/initrd.img",
		"-accel": "tcg,thread=multi,tb-size=1024", "-netdev": "user,id=net,hostfwd=tcp:127.0.0.1:2222-:22",
		"-chardev": "file,id=console,append=on,path=/n/console.log",
	} {
		if got := value(option); len(got) != 1 || got[0] != want {
			t.Errorf("%s %v, want %s", option, got, want)
		}
	}
	cmdline := strings.Fields(value("-append")[0])
	for _, want := range []string{"root=/dev/vda", "rw", "console=ttyS0", "psi=1", "node_partition=0"} {
		if !slices.Contains(cmdline, want) {
			t.Errorf("the kernel's command line lacks %s: %v", want, cmdline)
		}
	}
	drives := strings.Join(value("-drive"), "\n")
	for _, want := range []string{"file=/n/root,,1.qcow2", "file=/n/seed.tar,cache=unsafe,discard=unmap,werror=report,rerror=report,readonly=on", "file=/n/var.qcow2"} {
		if !strings.Contains(drives, want) {
			t.Errorf("no drive with %s in:\n%s", want, drives)
		}
	}
	for _, serial := range []string{"lab-root", "lab-seed", "lab-var"} {
		if !strings.Contains(strings.Join(value("-device"), "\n"), "serial="+serial) {
			t.Errorf("no disk with the serial %s", serial)
		}
	}
	if slices.Contains(args, "-no-reboot") || slices.Contains(args, "-snapshot") {
		t.Error("a node cannot reboot, or forgets")
	}

	small := machine{NoReboot: true, Snapshot: true, Accel: hardwareKVM}.args()
	if !slices.Contains(small, "-no-reboot") || !slices.Contains(small, "-snapshot") || slices.Contains(small, "-netdev") {
		t.Errorf("arguments %v", small)
	}
}

func TestMachineArgsOfTwoMachinesAreIndependent(t *testing.T) {
	a := machine{KernelArgs: []string{"a"}}.args()
	b := machine{KernelArgs: []string{"b"}}.args()
	if strings.HasSuffix(strings.Join(a, " "), " b") || slices.Equal(a, b) {
		t.Error("the machines share their kernel arguments")
	}
}

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

func TestStartQemuEnds(t *testing.T) {
	img := fakeQemu(t, "echo 'Could not set up host forwarding rule' >&2\nsleep 0.2\nexit 1\n")
	q, err := startQemu(t.Context(), machine{Image: img}, tiedToThisProcess)
	if err != nil {
		t.Fatal(err)
	}
	<-q.exited
	if err := q.err(); err == nil || !strings.Contains(err.Error(), "host forwarding") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("error %v", err)
	}
	if err := q.kill(); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestQemuKill(t *testing.T) {
	for _, life := range []lifetime{tiedToThisProcess, outlivesProcess} {
		img := fakeQemu(t, "trap '' TERM\nexec sleep 1000\n")
		q, err := startQemu(t.Context(), machine{Image: img, Console: filepath.Join(t.TempDir(), "console.log")}, life)
		if err != nil {
			t.Fatal(err)
		}
		if !q.process.alive() {
			t.Error("not alive")
		}
		if err := q.kill(); err != nil {
			t.Fatal(err)
		}
		if q.process.alive() {
			t.Error("alive after kill")
		}
	}
}

func TestStartQemuWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := startQemu(ctx, machine{}, tiedToThisProcess); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestStartQemuEndsAtOnce: a machine that ends before the lab checks it keeps its reason, tied or
// not.
func TestStartQemuEndsAtOnce(t *testing.T) {
	img := fakeQemu(t, "echo \"-netdev user: Could not set up host forwarding rule 'tcp'\" >&2; exit 1\n")
	for _, life := range []lifetime{tiedToThisProcess, outlivesProcess} {
		q, err := startQemu(t.Context(), machine{Image: img, Console: filepath.Join(t.TempDir(), "console.log")}, life)
		if err != nil {
			t.Fatal(err)
		}
		<-q.exited
		if !q.portTaken() || !strings.Contains(q.err().Error(), "exit status 1: -netdev") {
			t.Errorf("port taken: %v: %v", q.portTaken(), q.err())
		}
	}
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

// TestProbeKVMEndsASilentGuest: a guest that hangs at its first instruction prints nothing. That
// was seen where KVM works only in part.
func TestProbeKVMEndsASilentGuest(t *testing.T) {
	dir := t.TempDir()
	img := fakeQemu(t, "echo $$ >"+filepath.Join(dir, "pid")+"; exec sleep 1000\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := probeKVM(ctx, img, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := identify(pid); err == nil {
		t.Errorf("%+v is left", p)
	}
}
