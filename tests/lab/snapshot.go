package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// snapshot is a node of a flavour that was stopped when its pods ran: its memory in a file, and its
// disk below the disks of the nodes restored from it. Restoring a node takes seconds, and a boot
// takes half a minute of two cores.
//
// A restored node shares with the others of its flavour: host name, machine ID, boot ID and MAC
// address, the UIDs of its static pods, and the content of its caches. It has of its own: the port
// of its sshd, and its random numbers, which the kernel seeds again (vmgenid). Its clock has stood
// still; setClock sets it.
type snapshot struct{ dir string }

// memory returns the path of the file that qemu saves and loads: RAM and the state of the devices.
func (s snapshot) memory() string { return filepath.Join(s.dir, "memory") }

// root returns the path of the disk at that moment, over the image's. seed is the other disk of the
// machine.
func (s snapshot) root() string { return filepath.Join(s.dir, "root.qcow2") }
func (s snapshot) seed() string { return filepath.Join(s.dir, "seed.tar") }

const (
	// snapshotRevision is raised when a snapshot of the same inputs is made differently.
	snapshotRevision = 3
	// clockTolerance bounds the difference in speed between a saved node's clock and this machine's.
	clockTolerance = 0.03
	// saveTimeout is many times the time of a save: two seconds for a node of which 1 GiB is in use.
	saveTimeout = 2 * time.Minute
)

// snapshotMachine returns the machine of a snapshot and of all nodes restored from it. They must
// have the same devices.
func snapshotMachine(img image, a accel) machine {
	return machine{Image: img, MemoryMiB: defaultMemoryMiB, CPUs: defaultCPUs, Accel: a, NoReboot: true}
}

// snapshotKey covers all inputs of a snapshot: the image with its programs, the files of every
// node, the machine and the very qemu. Its next version need not understand what this one has
// saved.
func snapshotKey(ctx context.Context, img image, k keys, a accel) (key, error) {
	files, err := hashTree(guest, "guest/seed")
	if err != nil {
		return "", err
	}
	version, err := exec.CommandContext(ctx, img.qemu, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", img.qemu, err)
	}
	return keyOf(
		img.dir,
		k.dir,
		string(version),
		files,
		snapshotMachine(img, a).args(),
		a.hostDependence(),
		snapshotRevision,
	)
}

// hostDependence returns the part of a machine that depends on the host: under KVM its processor.
func (a accel) hostDependence() string {
	if a != hardwareKVM {
		return ""
	}
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err.Error()
	}
	first, _, _ := strings.Cut(string(data), "\n\n")
	var kept []string
	for line := range strings.Lines(first) {
		if strings.HasPrefix(line, "model name") || strings.HasPrefix(line, "flags") || strings.HasPrefix(line, "microcode") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// snapshot returns the snapshot of a flavour, and makes it first if there is none.
func (c cache) snapshot(ctx context.Context, f Flavour, img image, progress func(string)) (snapshot, error) {
	k, err := c.keys(ctx)
	if err != nil {
		return snapshot{}, err
	}
	a, err := chooseAccel(ctx, c, img, progress)
	if err != nil {
		return snapshot{}, err
	}
	key, err := snapshotKey(ctx, img, k, a)
	if err != nil {
		return snapshot{}, fmt.Errorf("snapshot of %s: %w", f.Name, err)
	}
	dir, err := c.ensure(ctx, "snapshots", f.Name, key, func(ctx context.Context, dir string) error {
		done := BeginStep(progress, snapshotStep)
		if err := c.save(ctx, f, img, k, a, snapshot{dir}); err != nil {
			return fmt.Errorf("snapshot of %s: %w", f.Name, err)
		}
		done()
		return nil
	})
	return snapshot{dir}, err
}

// save boots a node of a flavour and leaves its snapshot in the folder s.
func (c cache) save(ctx context.Context, f Flavour, img image, k keys, a accel, s snapshot) (err error) {
	o, err := Options{Name: f.hostName(), Flavour: f.Name}.withDefaults()
	if err != nil {
		return err
	}
	n, err := c.newNode(o, k, s.dir)
	if err != nil {
		return err
	}
	m := snapshotMachine(img, a)
	m.Control = true
	if err := n.boot(ctx, o, m); err != nil {
		return n.startFailed(ctx, err)
	}
	defer func() {
		if err != nil {
			err = n.startFailed(ctx, err)
		}
	}()
	if err := n.WaitReady(ctx); err != nil {
		return err
	}
	if err := n.settle(ctx); err != nil {
		return err
	}
	if err := n.checkClock(ctx); err != nil {
		return err
	}
	n.conn.close()
	ctx, cancel := context.WithTimeoutCause(ctx, saveTimeout, fmt.Errorf("not saved in %s", saveTimeout))
	defer cancel()
	if err := n.qemu.save(ctx, s.memory()); err != nil {
		return err
	}
	// A restored node needs only the disks and the memory.
	for _, name := range []string{stateName, consoleName} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the boot is over, so that no job of the boot is under way when the node is
// saved. It also writes cached data to the disk, and discards unused blocks.
func (n *Node) settle(ctx context.Context) error {
	_, err := n.Run(
		ctx,
		"systemctl is-system-running --wait >/dev/null; systemctl --failed --plain --no-legend | grep . && exit 1; sync; fstrim / 2>/dev/null; true",
	)
	return err
}

// checkClock returns an error if the node's clock does not keep pace with this machine's: every
// restored node would have it.
func (n *Node) checkClock(ctx context.Context) error {
	const watched = 3 * time.Second
	var at, theirs [2]time.Time
	for i := range at {
		if i > 0 {
			select {
			case <-time.After(watched):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		out, err := n.Run(ctx, "date +%s%N")
		if err != nil {
			return err
		}
		nanoseconds, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
		if err != nil {
			return fmt.Errorf("the node's time: %w", err)
		}
		at[i], theirs[i] = time.Now(), time.Unix(0, nanoseconds)
	}
	rate := float64(theirs[1].Sub(theirs[0])) / float64(at[1].Sub(at[0]))
	if math.Abs(rate-1) > clockTolerance {
		return fmt.Errorf(
			"the node's clock runs %.2f times as fast as this machine's: its kernel has measured its frequency on a busy host: run it again",
			rate,
		)
	}
	return nil
}

// restore starts the machine from a snapshot and waits for its ssh.
func (n *Node) restore(ctx context.Context, o Options, img image, a accel, s snapshot) error {
	m := snapshotMachine(img, a)
	m.Name, m.Console, m.Incoming = n.Name, n.ConsolePath(), s.memory()
	m.Root, m.Seed = disk{filepath.Join(n.Dir, "root.qcow2"), "qcow2"}, s.seed()
	if err := overlay(ctx, disk{s.root(), "qcow2"}, m.Root.Path); err != nil {
		return err
	}
	m.NoReboot = !o.Detached
	n.machine, n.options = m, o
	done := BeginStep(o.Progress, "restoring "+n.Name)
	if err := n.startUp(ctx, ""); err != nil {
		return err
	}
	// A reboot boots its disks.
	n.machine.Incoming = ""
	if err := n.setClock(ctx); err != nil {
		return err
	}
	done()
	return n.install(ctx, o)
}

// setClock gives the node this machine's time. Its own stood still since it was saved.
func (n *Node) setClock(ctx context.Context) error {
	now := time.Now()
	_, err := n.Run(ctx, fmt.Sprintf("date --set=@%d.%06d >/dev/null", now.Unix(), now.Nanosecond()/1000))
	return err
}

// install puts files into a restored node as into any running one: it reloads systemd, and makes
// the kubelet join the control plane.
func (n *Node) install(ctx context.Context, o Options) error {
	files := o.Files
	if o.ControlPlane != nil {
		joins, err := o.ControlPlane.join(n.Hostname)
		if err != nil {
			return err
		}
		files = mergeFiles(joins, files)
	}
	if len(files) == 0 {
		return nil
	}
	if err := n.CopyTo(ctx, files...); err != nil {
		return err
	}
	command := "systemctl daemon-reload"
	if o.ControlPlane != nil || kubeletReads(files) {
		command += " && systemctl restart kubelet.service"
	}
	_, err := n.Run(ctx, command)
	return err
}

// kubeletReads reports whether a running kubelet has to restart for one of the files.
func kubeletReads(files []File) bool {
	for _, f := range files {
		if f.Path == KubeletConfigPath || f.Path == "/etc/default/kubelet" {
			return true
		}
	}
	return false
}

// restorable reports whether nodes of the flavour are restored from a snapshot. Without vmgenid two
// of them would have the same random numbers.
func (f Flavour) restorable() bool { return platformOf(f.Arch).vmgenid }

// restorable returns an error for options that need a boot.
func (o Options) restorable() error {
	switch {
	case o.LateVar, len(o.KernelArgs) > 0, o.NoPods, o.CountInstructions:
		return errors.New("a restored node has booted: LateVar, KernelArgs, NoPods and CountInstructions need a boot")
	case o.MemoryMiB != defaultMemoryMiB, o.CPUs != defaultCPUs:
		return fmt.Errorf("a restored node has %d MiB and %d CPUs: another size needs a boot", defaultMemoryMiB, defaultCPUs)
	}
	return nil
}

// save writes the memory of the machine and the state of its devices to a file, and ends the
// machine. Its disks are complete then.
func (q *qemu) save(ctx context.Context, path string) error {
	for _, c := range []qmpCommand{
		{Execute: "qmp_capabilities"},
		// The file is as large as the memory, with holes for pages of zeros, and each page has its place,
		// so that loading reads it once.
		{Execute: "migrate-set-capabilities", Arguments: map[string]any{
			"capabilities": []map[string]any{{"capability": mappedRAM, "state": true}},
		}},
		// The machine need not continue meanwhile: it is stopped at once, and its pages are written once.
		// A machine that is stopped by a command would be restored as stopped.
		{
			Execute:   "migrate-set-parameters",
			Arguments: map[string]any{"downtime-limit": saveTimeout.Milliseconds(), "max-bandwidth": 0},
		},
		{Execute: "migrate", Arguments: map[string]any{"uri": "file:" + path}},
	} {
		if _, err := q.control.run(ctx, c); err != nil {
			return fmt.Errorf("save the machine: %w", err)
		}
	}
	err := waitFor(
		ctx,
		"the machine's memory in "+path,
		50*time.Millisecond,
		func(ctx context.Context) (bool, string, error) {
			data, err := q.control.run(ctx, qmpCommand{Execute: "query-migrate"})
			if err != nil {
				return false, "", err
			}
			var answer struct {
				Status string `json:"status"`
				Error  string `json:"error-desc"`
			}
			if err := json.Unmarshal(data, &answer); err != nil {
				return false, "", err
			}
			return answer.Status == "completed", answer.Status + " " + answer.Error, nil
		},
	)
	if err != nil {
		return fmt.Errorf("save the machine: %w", err)
	}
	if _, err := q.control.run(ctx, qmpCommand{Execute: "quit"}); err != nil {
		return fmt.Errorf("end the saved machine: %w", err)
	}
	select {
	case <-q.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the saved machine: %w", context.Cause(ctx))
	}
}
