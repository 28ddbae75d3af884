package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchIsInNoKeyOfAMD64: an entry of the cache for amd64 has the key that it had before there
// was another architecture: a change of one of these makes all disks again.
func TestArchIsInNoKeyOfAMD64(t *testing.T) {
	for _, f := range AllFlavours() {
		if f.Arch != "" {
			continue
		}
		programs := f.allPrograms()
		data, err := json.Marshal([]any{f, programs})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), `"Arch"`) {
			t.Errorf("%s: its architecture is in keys: %s", f.Name, data)
		}
		args := debianArgs(f)
		if !slices.Contains(args, "--variant=minbase") || len(args) > 6 ||
			!strings.Contains(args[2], ",linux-image-cloud-amd64,") {
			t.Errorf("%s: %q", f.Name, args)
		}
		for _, p := range programs {
			if env := buildEnv(p); !slices.Equal(env[1:], []string{"GOOS=linux", "GOARCH=amd64", "GOWORK=off"}) {
				t.Errorf("%s: %q", p.Name, env)
			}
			if p.cacheName() != p.Name {
				t.Errorf("%s has the name %s in the cache", p.Name, p.cacheName())
			}
		}
	}
	wanted := []string{"--mode=root", "--variant=extract", "--include=qemu-system-x86", `--aptopt=Acquire::Check-Valid-Until "false"`}
	if args := qemuArgs(""); !slices.Equal(args, wanted) {
		t.Errorf("%q, want %q", args, wanted)
	}
	if wrapper := qemuWrapper(""); wrapper != x86Wrapper {
		t.Error(wrapper)
	}
}

// TestMachineArgsOfAMD64: the arguments are in the keys of snapshots, in their order.
func TestMachineArgsOfAMD64(t *testing.T) {
	kernel := "root=/dev/vda rw console=ttyS0 psi=1 net.ifnames=0 mitigations=off nowatchdog loglevel=5 systemd.show_status=0 " +
		"cryptomgr.notests tsc=reliable panic=-1 lsm=lockdown,landlock,yama,integrity,apparmor no_timer_check highres=off " +
		"transparent_hugepage=never init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off audit=0"
	wanted := []string{
		"-name", "", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc,vmport=off,hpet=off",
		"-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max,la57=off,xsave=off,svm=off,erms=off,fsrm=off,avx=off",
		"-smp", "2", "-m", "4096", "-kernel", "/img/kernel", "-initrd", "/img/initrd.img", "-append", kernel,
		"-chardev", "file,id=console,append=on,path=", "-serial", "chardev:console",
		"-device", "virtio-rng-pci", "-device", "vmgenid,guid=auto",
		"-drive", "if=none,id=lab-root,format=,file=,cache=unsafe,discard=unmap,werror=report,rerror=report",
		"-device", "virtio-blk-pci,drive=lab-root,serial=lab-root", "-no-reboot",
	}
	args := snapshotMachine(image{dir: "/img", cpu: ",avx=off"}, softwareEmulation).args()
	if !slices.Equal(args, wanted) {
		t.Errorf("%q\nwant %q", args, wanted)
	}
}

func TestMachineArgsOfARM64(t *testing.T) {
	m := machine{
		Image: image{dir: "/img", arch: arm64}, Accel: softwareEmulation, CPUs: 2, MemoryMiB: 2048, SSHPort: 2222,
		KernelArgs: []string{"lab.bake"},
	}
	args := m.args()
	for option, want := range map[string]string{
		"-machine": "virt,gic-version=3,acpi=off", "-cpu": "neoverse-n1", "-accel": "tcg,thread=multi,tb-size=1024", "-serial": "chardev:console",
	} {
		if i := slices.Index(args, option); i < 0 || args[i+1] != want {
			t.Errorf("no %s %s in %q", option, want, args)
		}
	}
	line := args[slices.Index(args, "-append")+1]
	cmdline := strings.Fields(line)
	for _, want := range []string{"root=/dev/vda", "console=ttyAMA0", "psi=1", "mitigations=off", "lab.bake"} {
		if !slices.Contains(cmdline, want) {
			t.Errorf("the kernel's command line lacks %s: %s", want, line)
		}
	}
	for _, x86 := range []string{"ttyS0", "tsc=", "no_timer_check"} {
		if strings.Contains(line, x86) {
			t.Errorf("the kernel's command line has %s: %s", x86, line)
		}
	}
	if slices.Contains(args, "vmgenid,guid=auto") || !slices.Contains(args, "virtio-net-pci,netdev=net,romfile=") {
		t.Errorf("devices in %q", args)
	}
}

// TestForeignFlavour: what is made for another architecture has other names and other keys than
// what is made for this machine's, and nothing of it is in C, for which a compiler is missing.
func TestForeignFlavour(t *testing.T) {
	foreign, err := FlavourByName("arm64")
	if err != nil {
		t.Fatal(err)
	}
	if foreign.Arch != arm64 || !foreign.OnRequest || foreign.restorable() {
		t.Errorf("%+v", foreign)
	}
	native := foreign
	native.Arch = ""
	sources, err := sourcesDir()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range foreign.allPrograms() {
		if p.CGO || p.C != nil {
			t.Errorf("%s is in C", p.Name)
		}
		other := native.allPrograms()[i]
		a, err := programKey(p, sources)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := programKey(other, sources); err != nil || a == b || p.cacheName() != other.cacheName()+"-arm64" {
			t.Errorf("%s and %s: keys %s and %s, %v", p.cacheName(), other.cacheName(), a, b, err)
		}
		if env := buildEnv(p); !slices.Contains(env, "GOARCH=arm64") {
			t.Errorf("%s: %q", p.Name, env)
		}
	}
	a, err := debianKey(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := debianKey(native); err != nil || a == b {
		t.Errorf("Debian: keys %s and %s, %v", a, b, err)
	}
	args := strings.Join(debianArgs(foreign), " ")
	for _, want := range []string{
		"--variant=extract", "--architectures=arm64", "--include=?essential", "--include=?priority(required)", "--include=apt,",
		",linux-image-cloud-arm64,", ",containerd,", "--skip=cleanup/apt/cache",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("mmdebstrap has no %s: %s", want, args)
		}
	}
	if args := qemuArgs(arm64); !slices.Contains(args, "--include=qemu-system-arm") {
		t.Errorf("%q", args)
	}
	wrapper := qemuWrapper(arm64)
	if strings.Count(wrapper, "qemu-system-aarch64") != 2 || strings.Contains(wrapper, "qemu-system-x86") ||
		!strings.Contains(wrapper, "ld-linux-x86-64.so.2") {
		t.Error(wrapper)
	}
	_, err = Options{Flavour: "arm64", Restore: true}.withDefaults()
	if err == nil || !strings.Contains(err.Error(), "cannot be restored") {
		t.Errorf("error %v", err)
	}
	var ps parts
	for _, f := range []Flavour{native, foreign} {
		if _, err := ps.add(cache{Dir: t.TempDir()}, f, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := partNames(ps.kubernetes), []string{"kubelet-1.37", "kubelet-1.37-arm64"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	programs := []string{"pause", "podtool", "pause-arm64", "podtool-arm64"}
	if got, want := partNames(ps.programs), programs; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := partNames(ps.debian); len(got) != 4 || got[0] != "qemu" || got[2] != "qemu-arm64" {
		t.Errorf("%q", got)
	}
}

// TestProgramKeyOfOtherArch: a file for one architecture does not change the key of the other.
func TestProgramKeyOfOtherArch(t *testing.T) {
	dir := t.TempDir()
	p := podtool()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, p.Source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	both := func() (native, foreign key) {
		t.Helper()
		native, err := programKey(p, dir)
		if err != nil {
			t.Fatal(err)
		}
		other := p
		other.Arch = arm64
		if foreign, err = programKey(other, dir); err != nil {
			t.Fatal(err)
		}
		return native, foreign
	}
	write("main.go", "package main")
	write("fork_linux_amd64.go", "package main")
	native, foreign := both()
	for _, tc := range []struct {
		file            string
		native, foreign bool // whether the key changes
	}{
		{"fork_linux_arm64.go", false, true},
		{"fork_linux_amd64.go", true, false},
		{"main.go", true, true},
	} {
		write(tc.file, "package main // changed")
		a, b := both()
		if (a != native) != tc.native || (b != foreign) != tc.foreign {
			t.Errorf("%s changes the key of amd64: %v, of arm64: %v", tc.file, a != native, b != foreign)
		}
		native, foreign = a, b
	}
}
