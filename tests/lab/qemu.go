package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// disk is an image file in one of qemu's formats.
type disk struct{ Path, Format string }

// accel is qemu's way to run the guest's instructions.
type accel string

const (
	// softwareEmulation runs anywhere. It uses one translation thread per virtual CPU. A small
	// translation buffer would be flushed again and again by Go programs of the kubelet's size.
	softwareEmulation accel = "tcg,thread=multi,tb-size=1024"
	hardwareKVM       accel = "kvm"
	// countingEmulation needs -icount, and -icount a single translation thread.
	countingEmulation accel = "tcg,thread=single,tb-size=1024"
)

// machine holds all settings with which a virtual machine is started.
type machine struct {
	Name       string
	Image      image
	Root       disk
	Seed       string // a tar, may be empty
	Var        *disk  // a late /var, may be nil
	Console    string // file the serial console is written to
	SSHPort    int    // on loopback; 0 is no network
	MemoryMiB  int
	CPUs       int
	Accel      accel
	KernelArgs []string
	NoReboot   bool   // end instead of rebooting
	Snapshot   bool   // throw away all writes
	Control    bool   // accept commands, see qmp
	Incoming   string // file of a saved machine to resume instead of booting
}

// kernelArgs returns the arguments that every machine with an image has. Mitigations cost much
// under emulation and protect nothing here.
func kernelArgs(img image) []string {
	args := []string{
		"root=/dev/vda", "rw", "console=" + platformOf(img.arch).console, "psi=1", "net.ifnames=0", "mitigations=off",
		"nowatchdog", "loglevel=5", "systemd.show_status=0", "cryptomgr.notests", "tsc=reliable", "panic=-1", securityModules,
		// On a busy host the emulated timer is late for the kernel's test of it: "IO-APIC + timer doesn't
		// work!" (6.12, qemu 10.0).
		"no_timer_check",
		// Go programs sleep for 20 µs at a time while they look for work, and each such timer is an
		// emulated interrupt. A flush of one page below a huge one flushes the emulator's whole TLB.
		// Without both a boot until pods run takes 62 s of the host's CPU time instead of 85 (qemu 10.0,
		// two CPUs). Timers of a node are then as coarse as a tick, 4 ms.
		"highres=off", "transparent_hugepage=never",
		// Debian's kernel hardens itself. Clearing each page and each object at its allocation was a
		// third of the work of a busy node's kernel (6.12, /proc/profile).
		"init_on_alloc=0", "hardened_usercopy=off", "randomize_kstack_offset=off", "audit=0",
	}
	if img.selinux {
		args = withSELinux(args)
	}
	if img.arch == "" {
		return args
	}
	// The kernel gives an argument that it does not know to its first process.
	return slices.DeleteFunc(args, func(arg string) bool { return arg == "tsc=reliable" || arg == "no_timer_check" })
}

// securityModules lists Debian's, without bpf. systemd 257 attaches a program to the hook of
// file_open whenever it starts or re-executes, for RestrictFileSystems=, and the kernel patches
// that function while other CPUs open files. Under emulation they now and then run a translation
// made in between: an int3 oops in bpf_lsm_file_open (kernel 6.12; seen with qemu 7.2 after two
// minutes, and with 10.0 after minutes of re-execution). One boot of some fifty had an int3 oops
// when systemd started, which fits.
const securityModules = "lsm=lockdown,landlock,yama,integrity,apparmor"

// args returns the arguments of the program that runs it.
func (m machine) args() []string {
	p := platformOf(m.Image.arch)
	args := []string{
		"-name", m.Name,
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", p.machine, "-accel", string(m.Accel),
		"-cpu", m.Accel.cpu(p) + m.Image.cpu, "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MemoryMiB),
		"-kernel", m.Image.kernel(), "-initrd", m.Image.initrd(),
		"-append", strings.Join(append(kernelArgs(m.Image), m.KernelArgs...), " "),
		"-chardev", consoleArg(m.Console), "-serial", "chardev:console",
		"-device", "virtio-rng-pci",
	}
	if p.vmgenid {
		// A guest that finds another GUID here is a copy, and seeds its random numbers again.
		args = append(args, "-device", "vmgenid,guid=auto")
	}
	args = append(args, driveArgs("lab-root", m.Root, false)...)
	if m.Seed != "" {
		args = append(args, driveArgs("lab-seed", disk{m.Seed, "raw"}, true)...)
	}
	if m.Var != nil {
		args = append(args, driveArgs("lab-var", *m.Var, false)...)
	}
	if m.SSHPort != 0 {
		args = append(args,
			"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:127.0.0.1:%d-:22", m.SSHPort),
			// Without its boot ROM the firmware does not try to boot from the network.
			"-device", "virtio-net-pci,netdev=net,romfile=")
	}
	if m.NoReboot {
		args = append(args, "-no-reboot")
	}
	if m.Snapshot {
		args = append(args, "-snapshot")
	}
	if m.Control {
		args = append(args, "-chardev", "stdio,id=control,signal=off", "-mon", "chardev=control,mode=control")
	}
	if m.Accel == countingEmulation {
		args = append(args, "-icount", fmt.Sprintf("shift=%d,sleep=on", countShift))
	}
	if m.Incoming != "" {
		args = append(args, "-global", "migration."+mappedRAM+"=on", "-incoming", "file:"+m.Incoming)
	}
	return args
}

// countShift is the binary logarithm of InstructionTime in nanoseconds. A host that executes fewer
// instructions in that time makes the guest's clock slow, and changes no count.
const countShift = 2

// InstructionTime is the time that each instruction takes on a node with CountInstructions.
const InstructionTime = 1 << countShift * time.Nanosecond

// mappedRAM is a capability of qemu's migration. A saved machine has to be loaded with it as well.
const mappedRAM = "mapped-ram"

// consoleArg returns the argument that identifies a machine: no two write the same console.
func consoleArg(console string) string { return "file,id=console,append=on,path=" + escape(console) }

// cpu returns the processor model: under KVM the host's, and under emulation the platform's.
func (a accel) cpu(p platform) string {
	if a == hardwareKVM {
		return "host"
	}
	return p.cpu
}

// driveArgs adds a disk that the guest finds by its serial. cache=unsafe: a node's writes have to
// survive a reboot of the node, not one of the host. werror=report: the guest gets an error if the
// host's disk is full, and is not paused silently.
func driveArgs(serial string, d disk, readOnly bool) []string {
	drive := fmt.Sprintf(
		"if=none,id=%s,format=%s,file=%s,cache=unsafe,discard=unmap,werror=report,rerror=report",
		serial, d.Format, escape(d.Path),
	)
	if readOnly {
		drive += ",readonly=on"
	}
	return []string{"-drive", drive, "-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s", serial, serial)}
}

// escape doubles commas, which separate the options of one qemu argument.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// lifetime decides whether a machine ends with the process that started it.
type lifetime bool

const (
	tiedToThisProcess lifetime = true
	outlivesProcess   lifetime = false
)

// qemu is a machine that was started by this process.
type qemu struct {
	process process
	exited  chan struct{}
	stderr  *output // the goroutine of os/exec writes it
	log     string  // the file of its messages instead of stderr, if it has one
	control *qmp    // nil without machine.Control
	waitErr error   // set before exited is closed
}

// startQemu starts a machine. The kernel kills a tied one when this process ends, however it ends.
// startQemu returns no error if the machine ends at once: see exited and err.
func startQemu(ctx context.Context, m machine, life lifetime) (*qemu, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	q := &qemu{exited: make(chan struct{}), stderr: &output{}}
	cmd := exec.Command(m.Image.qemu, m.args()...)
	if life == tiedToThisProcess {
		cmd.Stderr = q.stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	} else {
		// A closed pipe would end qemu at its next message.
		q.log = filepath.Join(filepath.Dir(m.Console), "qemu.log")
		log, err := os.Create(q.log)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		cmd.Stderr = log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if m.Control {
		to, err := cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("start qemu: %w", err)
		}
		from, err := cmd.StdoutPipe()
		if err != nil {
			return nil, fmt.Errorf("start qemu: %w", err)
		}
		q.control = newQMP(to, from)
	}
	ended, err := start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start qemu: %w", err)
	}
	go func() {
		q.waitErr = <-ended
		close(q.exited)
	}()
	q.process, err = identify(cmd.Process.Pid)
	if errors.Is(err, errGone) {
		<-q.exited
		return q, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start qemu: %w", err), cmd.Process.Kill())
	}
	return q, nil
}

// err returns an error with the end of qemu, or nil while it runs.
func (q *qemu) err() error {
	select {
	case <-q.exited:
	default:
		return errors.New("qemu is running")
	}
	state := "qemu ended with status 0"
	if q.waitErr != nil {
		state = "qemu: " + q.waitErr.Error()
	}
	if text := lastLines(string(q.messages()), 5); text != "" {
		state += ": " + text
	}
	return errors.New(state)
}

// messages returns qemu's messages.
func (q *qemu) messages() []byte {
	if q.log == "" {
		return []byte(q.stderr.String())
	}
	data, err := os.ReadFile(q.log)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// portTaken reports whether the machine has ended because another process had its port.
func (q *qemu) portTaken() bool {
	select {
	case <-q.exited:
		return bytes.Contains(q.messages(), []byte("host forwarding"))
	default:
		return false
	}
}

// kill ends the machine at once and waits until it is gone.
func (q *qemu) kill() error {
	select {
	case <-q.exited:
		return nil
	default:
	}
	if err := q.process.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("end qemu: %w", err)
	}
	select {
	case <-q.exited:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("end qemu: process %d is there 30 s after SIGKILL", q.process.PID)
	}
}
