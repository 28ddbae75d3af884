package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// bootTimeout bounds the time from the start of qemu to an answer of sshd. A boot took 10 to 15 s
// on two cores.
const bootTimeout = 3 * time.Minute

// startFailed ends the machine. It keeps the console and qemu's messages, unless the start was
// cancelled.
func (n *Node) startFailed(ctx context.Context, err error) error {
	if n.qemu == nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	killErr := n.qemu.kill()
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.Join(fmt.Errorf("start node %s: %w", n.Name, err), killErr)
	}
	dir := n.cache.artifactsDir("start", n.Name)
	if keepErr := n.keepLogs(dir); keepErr != nil {
		return errors.Join(fmt.Errorf("start node %s: %w", n.Name, err), killErr, fmt.Errorf("keep its logs: %w", keepErr))
	}
	return errors.Join(fmt.Errorf("start node %s: its logs are in %s: %w", n.Name, dir, err), killErr)
}

// keepLogs copies the console and qemu's messages to a folder that stays.
func (n *Node) keepLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	console, err := os.ReadFile(n.ConsolePath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // qemu may have ended before it made it
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "console.log"), console, 0o644),
		os.WriteFile(filepath.Join(dir, "qemu.log"), n.qemu.messages(), 0o644))
}

// boot makes the disks of a machine, starts it and waits for sshd.
func (n *Node) boot(ctx context.Context, o Options, m machine) error {
	files, err := nodeFiles(o, n.keys)
	if err != nil {
		return err
	}
	m.Name, m.Console, m.KernelArgs = n.Name, n.ConsolePath(), o.KernelArgs
	m.Root, m.Seed = disk{filepath.Join(n.Dir, "root.qcow2"), "qcow2"}, filepath.Join(n.Dir, "seed.tar")
	if err := writeTarPath(m.Seed, files); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := overlay(ctx, disk{m.Image.root(), "raw"}, m.Root.Path); err != nil {
		return err
	}
	if o.LateVar {
		m.Var = &disk{filepath.Join(n.Dir, "var.qcow2"), "qcow2"}
		if err := overlay(ctx, disk{m.Image.latevar(), "raw"}, m.Var.Path); err != nil {
			return err
		}
	}
	n.machine, n.options = m, o
	done := BeginStep(o.Progress, "booting "+n.Name)
	if err := n.startUp(ctx, ""); err != nil {
		return err
	}
	done()
	return nil
}

// maxPanics is the number of failed boots after which the lab gives up. It counts boots that end in
// a panic of the guest's kernel, or in a clock that is too fast, under software emulation. Tests
// are not about the bugs of emulation (see securityModules). KVM has no such excuse.
const maxPanics = 3

// maxPorts is the number of ports to try: after the choice of a port and before qemu uses it,
// another process may take it, and then qemu ends at once.
const maxPorts = 5

// startUp starts the machine and waits for sshd, of another boot than oldBoot.
func (n *Node) startUp(ctx context.Context, oldBoot string) error {
	panics, ports := 0, 0
	for {
		before := fileSize(n.ConsolePath())
		n.consoleBefore = before
		if err := n.startQemu(ctx); err != nil {
			return err
		}
		err := n.waitSSH(ctx, oldBoot)
		switch {
		case err == nil:
			return nil
		case n.qemu.portTaken():
			if ports++; ports == maxPorts {
				return err
			}
		case n.machine.Accel == softwareEmulation &&
			(errors.Is(err, errFastClock) || n.machine.NoReboot && panicked(n.ConsolePath(), before)):
			if panics++; panics == maxPanics {
				return err
			}
			n.options.Progress(
				"the guest's kernel panicked or has a clock that runs away, as it does now and then under software emulation: booting again",
			)
			if err := n.qemu.kill(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// panicked reports whether the console shows a kernel panic after an offset.
func panicked(console string, offset int64) bool {
	data, err := os.ReadFile(console)
	return err == nil && int64(len(data)) > offset && guestPanic(data[offset:]) != nil
}

// fileSize returns the size of a file, or 0 if there is none.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// startQemu starts the machine on a port that is free now.
func (n *Node) startQemu(ctx context.Context) error {
	m, life := n.machine, tiedToThisProcess
	if n.options.Detached {
		life = outlivesProcess
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	m.SSHPort = port
	q, err := startQemu(ctx, m, life)
	if err != nil {
		return err
	}
	n.qemu, n.process, n.Port, n.Started = q, q.process, port, time.Now()
	n.conn.setAddr(fmt.Sprintf("127.0.0.1:%d", port))
	return n.writeState()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// overlay makes an empty disk over a read-only one.
func overlay(ctx context.Context, base disk, path string) error {
	return command(ctx, "", nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", base.Format, "-b", base.Path, path)
}

// nodeFiles returns a node's seed: its defaults, the files of the options, and the mark that the
// seed is complete.
func nodeFiles(o Options, k keys) ([]File, error) {
	defaults, err := guestFiles("seed")
	if err != nil {
		return nil, err
	}
	if o.NoPods {
		kept := defaults[:0]
		for _, f := range defaults {
			if path.Dir(f.Path) != ManifestDir {
				kept = append(kept, f)
			}
		}
		defaults = kept
	}
	id, err := machineID()
	if err != nil {
		return nil, err
	}
	own := []File{
		{Path: "/etc/machine-id", Data: []byte(id)},
		{Path: "/etc/hostname", Data: []byte(o.Name + "\n")},
		{Path: "/etc/hosts", Data: []byte("127.0.0.1 localhost\n127.0.1.1 " + o.Name + "\n")},
	}
	if o.LateVar {
		own = append(own, File{Path: "/etc/fstab", Data: []byte("LABEL=lab-var /var ext4 defaults 0 2\n")})
	}
	var joins []File
	if o.ControlPlane != nil {
		if joins, err = o.ControlPlane.join(o.Name); err != nil {
			return nil, err
		}
	}
	mark := []File{{Path: seededPath, Data: []byte("This node's own files are in place.\n")}}
	return mergeFiles(defaults, own, k.seed(), joins, o.Files, mark), nil
}

// waitSSH waits until sshd answers, from another boot than oldBoot. It fails at once when the
// machine ends.
func (n *Node) waitSSH(ctx context.Context, oldBoot string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("no answer of sshd in %s", bootTimeout))
	defer cancel()
	ended := errors.New("the machine ended")
	watchCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if n.process.wait(watchCtx) == nil {
			stop(ended)
		}
	}()
	err := waitFor(watchCtx, "ssh", pollInterval, func(ctx context.Context) (bool, string, error) {
		if err := n.clockRuns(); err != nil {
			stop(err)
			return false, "", err
		}
		boot, err := n.bootID(ctx)
		// If the machine has ended, another node answers on its port.
		return err == nil && boot != oldBoot && n.process.alive(), boot, err
	})
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(watchCtx), ended) && n.qemu != nil {
		select {
		case <-n.qemu.exited:
			err = fmt.Errorf("%w: %w", err, n.qemu.err())
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%w: the console's end:\n%s", err, tailFile(n.ConsolePath(), 15))
}

// errFastClock means that the kernel takes the frequency of its clock for much lower than it is: it
// measures the frequency against an emulated timer, which is late on a busy host. Units of such a
// guest fail, because everything they do takes too long (6.12, qemu 10.0: ten times too fast).
var errFastClock = errors.New("the guest's clock runs away")

// stamp matches the time since boot in front of a message of the kernel.
var stamp = regexp.MustCompile(`(?m)^\[ *([0-9]+\.[0-9]+)\]`)

// clockRuns returns errFastClock if the kernel's last message on the console is from the future.
func (n *Node) clockRuns() error {
	console, err := os.ReadFile(n.ConsolePath())
	if err != nil || n.machine.Incoming != "" {
		return nil //nolint:nilerr // not yet; or its boot was another day
	}
	const atLeast = 20 * time.Second
	since := time.Since(n.Started)
	all := stamp.FindAllSubmatch(console[min(len(console), int(n.consoleBefore)):], -1)
	if len(all) == 0 {
		return nil
	}
	seconds, err := strconv.ParseFloat(string(all[len(all)-1][1]), 64)
	if said := time.Duration(seconds * float64(time.Second)); err == nil && said > since+atLeast {
		return fmt.Errorf("%w: %.0f s by its own word, %.0f s after its start", errFastClock, seconds, since.Seconds())
	}
	return nil
}

func (n *Node) bootID(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(out), err
}
