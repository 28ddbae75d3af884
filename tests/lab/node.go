// Package lab runs disposable Kubernetes nodes: virtual machines with systemd as PID 1, a stock container
// runtime and a stock kubelet that runs static pods without an API server. A test starts one, asks it
// things and throws it away; people do the same with tests/lab/lab.
//
// What is expensive (programs built from their modules, a Debian disk, container images) is made once by
// Prepare and kept in a cache folder. A node boots from an overlay over it with files of its own, which are
// in place before PID 1 starts, so that systemd's generators see them at the first boot.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Options says what a node is like. The zero value is a node of the default flavour with its static pods.
type Options struct {
	// Name is the node's host name, a DNS label; empty is one that nobody has.
	Name string
	// Flavour is the name of a Flavour; empty is the default one.
	Flavour string
	// Files are in the root file system before PID 1 starts. They replace the files that a node has by
	// default: KubeletConfigPath, and the manifests in ManifestDir unless NoPods is set.
	Files []File
	// NoPods leaves out the static pods that a node has by default.
	NoPods bool
	// KernelArgs are added to the kernel's command line.
	KernelArgs []string
	// LateVar puts /var on a file system of its own, which systemd mounts from /etc/fstab: generators run
	// without it. Files below /var are there and nowhere else.
	LateVar bool
	// MemoryMiB is 4096 when zero, CPUs is 4.
	MemoryMiB, CPUs int
	// Detached lets the machine outlive this process, until Stop or "lab down". Otherwise the kernel kills
	// it when this process ends.
	Detached bool
	// Progress is told the steps that take long; nil is nobody.
	Progress func(string)
}

// Node is a running machine.
type Node struct {
	// Name is its host name and Flavour the flavour's name.
	Name, Flavour string
	// Dir holds its disks and its console's log. Stop removes it.
	Dir string
	// Port is where its sshd is on loopback.
	Port int
	// Started is when qemu was started.
	Started time.Time

	cache   Cache
	keys    keys
	conn    *connection
	http    *http.Client
	process Process
	owner   Process // who started it
	qemu    *qemu   // nil when another process started it
	options Options
	machine machine // how qemu was started, unless another process did
}

// ConsolePath returns the file that the serial console is written to.
func (n *Node) ConsolePath() string { return filepath.Join(n.Dir, consoleName) }

const consoleName = "console.log"

// bootTimeout is from the start of qemu to an answer of sshd; a boot took 10 to 15 s on two cores.
const bootTimeout = 3 * time.Minute

var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Start prepares the flavour when it has not been, starts a machine and returns when its ssh answers. When it
// fails or ctx ends before, nothing is left of the machine but its logs, and the error says where they are.
func Start(ctx context.Context, o Options) (*Node, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	cache, img, err := prepare(ctx, o.Flavour, o.Progress)
	if err != nil {
		return nil, err
	}
	keys, err := cache.keys(ctx)
	if err != nil {
		return nil, err
	}
	config, err := keys.clientConfig()
	if err != nil {
		return nil, err
	}
	if err := cache.removeDead(ctx); err != nil {
		return nil, err
	}
	unlock, err := cache.lockNode(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := cache.nodeDir(o.Name)
	if cache.hasState(o.Name) {
		return nil, fmt.Errorf("node %s: there is one of this name already: choose another or run: lab down %s", o.Name, o.Name)
	}
	if err := cache.removeUnfinished(ctx, o.Name); err != nil {
		return nil, err
	}
	owner, err := identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", o.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("node %s: %w", o.Name, err)
	}
	n := &Node{Name: o.Name, Flavour: o.Flavour, Dir: dir, cache: cache, keys: keys, owner: owner}
	n.conn = &connection{node: n.Name, config: config}
	n.http = n.HTTPClient()
	if err := n.boot(ctx, o, img); err != nil {
		return nil, errors.Join(n.startFailed(ctx, err), os.RemoveAll(dir))
	}
	return n, nil
}

// startFailed ends the machine, and keeps what it and qemu have said unless somebody gave up waiting.
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

func (o Options) withDefaults() (Options, error) {
	f, err := FlavourByName(o.Flavour)
	if err != nil {
		return o, err
	}
	o.Flavour = f.Name
	if o.Name == "" {
		id, err := machineID()
		if err != nil {
			return o, err
		}
		o.Name = f.Name + "-" + id[:6]
	}
	if !nodeName.MatchString(o.Name) {
		return o, fmt.Errorf("node name %q: not a DNS label: use a-z, 0-9 and - only", o.Name)
	}
	if o.MemoryMiB == 0 {
		o.MemoryMiB = 4096
	}
	if o.CPUs == 0 {
		o.CPUs = 4
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// boot makes the node's disks, starts qemu and waits for sshd.
func (n *Node) boot(ctx context.Context, o Options, img image) error {
	files, err := nodeFiles(o, n.keys)
	if err != nil {
		return err
	}
	m := machine{
		Name: n.Name, Image: img, Root: disk{filepath.Join(n.Dir, "root.qcow2"), "qcow2"},
		Seed: filepath.Join(n.Dir, "seed.tar"), Console: n.ConsolePath(),
		MemoryMiB: o.MemoryMiB, CPUs: o.CPUs, KernelArgs: o.KernelArgs,
	}
	if err := writeTarPath(m.Seed, files); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := overlay(ctx, img.root(), m.Root.Path); err != nil {
		return err
	}
	if o.LateVar {
		m.Var = &disk{filepath.Join(n.Dir, "var.qcow2"), "qcow2"}
		if err := overlay(ctx, img.latevar(), m.Var.Path); err != nil {
			return err
		}
	}
	if m.Accel, err = chooseAccel(ctx, n.cache, img, o.Progress); err != nil {
		return err
	}
	// See Reboot. A node that nobody watches reboots by itself.
	m.NoReboot = !o.Detached
	n.machine, n.options = m, o
	done := step(o.Progress, "booting "+n.Name)
	if err := n.startUp(ctx, ""); err != nil {
		return err
	}
	done()
	return nil
}

// maxPanics is how many boots in a row may end in a panic of the guest's kernel under software emulation. One in some
// fifty does (qemu 7.2, kernel 6.12), two seconds in, with an int3 oops: the kernel patches its own code while other
// CPUs run it, and the emulator's threads do not always see it as processors do. KVM has no such excuse.
const maxPanics = 3

// maxPorts is how many ports are tried: between the choice of one and qemu's use of it somebody else may take it, and
// then qemu ends at once.
const maxPorts = 5

// startUp starts the machine and waits for sshd, of another boot than oldBoot.
func (n *Node) startUp(ctx context.Context, oldBoot string) error {
	panics, ports := 0, 0
	for {
		before := fileSize(n.ConsolePath())
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
		case n.machine.Accel == softwareEmulation && n.machine.NoReboot && panicked(n.ConsolePath(), before):
			if panics++; panics == maxPanics {
				return err
			}
			n.options.Progress("the guest's kernel panicked, as it does now and then under software emulation: booting again")
		default:
			return err
		}
	}
}

// panicked reports whether a kernel has said so on the console, behind an offset.
func panicked(console string, offset int64) bool {
	data, err := os.ReadFile(console)
	return err == nil && int64(len(data)) > offset && bytes.Contains(data[offset:], []byte("Kernel panic - not syncing"))
}

// fileSize is 0 for a file that is not there.
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
func overlay(ctx context.Context, base, path string) error {
	return command(ctx, "", nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, path)
}

// nodeFiles returns a node's seed: its defaults, what the options ask for, and the mark that it is whole.
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
	mark := []File{{Path: seededPath, Data: []byte("This node's own files are in place.\n")}}
	return mergeFiles(defaults, own, k.seed(), o.Files, mark), nil
}

// waitSSH waits until sshd answers, from another boot than oldBoot. It fails at once when the machine ends.
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
		boot, err := n.bootID(ctx)
		// When the machine has ended, it is another node that answers on its port.
		return err == nil && boot != oldBoot && n.process.Alive(), boot, err
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

func (n *Node) bootID(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(out), err
}

// CheckRunning returns an error when the machine has ended. Another node may be on its port then, and all nodes have the
// same host key.
func (n *Node) CheckRunning() error {
	if n.process.Alive() {
		return nil
	}
	return fmt.Errorf("node %s has ended: its console is in %s: remove it with: lab down %s", n.Name, n.ConsolePath(), n.Name)
}

// Run runs a shell command as root and returns what it wrote to standard output. When it ends with another
// status than 0 the error is a *CommandError. Without a deadline in ctx it may take DefaultTimeout.
func (n *Node) Run(ctx context.Context, cmd string) (string, error) {
	return n.conn.run(ctx, cmd, nil)
}

// ReadFile returns the content of a file.
func (n *Node) ReadFile(ctx context.Context, path string) ([]byte, error) {
	out, err := n.Run(ctx, "cat "+quote(path))
	return []byte(out), err
}

// WriteFile writes a file and the folders above it. A mode of 0 is 0644.
func (n *Node) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	return n.CopyTo(ctx, File{Path: path, Data: data, Mode: mode})
}

// CopyTo puts files into the running node, as Options.Files does before it runs.
func (n *Node) CopyTo(ctx context.Context, files ...File) error {
	var archive bytes.Buffer
	if err := writeTar(&archive, files); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	// A running program's file cannot be written to, and a unit may read a file at any moment: tar removes
	// what is there and makes a new file.
	_, err := n.conn.run(ctx, "tar --unlink-first --keep-directory-symlink -xpf - -C /", &archive)
	return err
}

// Reboot reboots the machine as systemctl does and returns when its ssh answers again. Its files are as they
// were: the seed is applied once in a node's life. The node's Port may change.
func (n *Node) Reboot(ctx context.Context) error {
	if err := n.reboot(ctx); err != nil {
		return fmt.Errorf("reboot node %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) reboot(ctx context.Context) error {
	boot, err := n.bootID(ctx)
	if err != nil {
		return err
	}
	offCtx, cancel := context.WithTimeoutCause(ctx, shutdownTimeout, fmt.Errorf("still up after %s", shutdownTimeout))
	defer cancel()
	// The connection may end before the command's status comes.
	if _, err := n.Run(offCtx, "systemctl reboot"); errors.As(err, new(*CommandError)) {
		return err
	}
	n.conn.close()
	if n.qemu == nil || !n.machine.NoReboot {
		return n.waitSSH(ctx, boot)
	}
	// The machine ends where it would reset, and a new qemu boots its disks. One that goes on keeps what it has
	// translated, and has to throw it away page by page as the new boot writes over the memory of the old: 12 s
	// before PID 1 started instead of 1 (qemu 7.2).
	if err := n.process.wait(offCtx); err != nil {
		return fmt.Errorf("%w: the console's end:\n%s", err, tailFile(n.ConsolePath(), 15))
	}
	return n.startUp(ctx, boot)
}

// PowerCycle cuts the machine off, as a loss of power does, and boots it again from its disks. Only nodes that
// this process has started have it.
func (n *Node) PowerCycle(ctx context.Context) error {
	if n.qemu == nil {
		return fmt.Errorf("power cycle of node %s: another process has started it", n.Name)
	}
	err := n.qemu.kill()
	n.conn.close()
	if err == nil {
		err = n.startUp(ctx, "")
	}
	if err != nil {
		return fmt.Errorf("power cycle of node %s: %w", n.Name, err)
	}
	return nil
}

// Stop ends the machine at once and removes all that is left of it. It is no error when it has ended.
func (n *Node) Stop(ctx context.Context) error {
	unlock, err := n.cache.lockNode(ctx, n.Name)
	if err != nil {
		return err
	}
	defer unlock()
	n.conn.close()
	if n.qemu != nil {
		err = n.qemu.kill()
	} else if err = n.process.end(ctx, endGrace); err == nil {
		// Whoever started it may have been killed between a new machine and the note of it.
		err = endMachine(ctx, n.ConsolePath())
	}
	if err != nil {
		return fmt.Errorf("stop node %s: %w", n.Name, err)
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		return fmt.Errorf("stop node %s: %w", n.Name, err)
	}
	return nil
}

// endGrace is how long a machine may take to end when it is asked to.
const endGrace = 10 * time.Second

// shutdownTimeout is for a clean end: the kubelet and its containers have to stop.
const shutdownTimeout = time.Minute

// Shutdown powers the machine off as systemctl does, and then is Stop. A machine that does not answer or does
// not end in time is ended by Stop.
func (n *Node) Shutdown(ctx context.Context) error {
	if !n.process.Alive() {
		return n.Stop(ctx)
	}
	offCtx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if _, err := n.Run(offCtx, "systemctl poweroff"); !errors.As(err, new(*CommandError)) && n.process.Alive() {
		_ = n.process.wait(offCtx)
	}
	return n.Stop(ctx)
}

// SSHCommand returns the arguments of the system's ssh client for this node.
func (n *Node) SSHCommand(cmd ...string) []string {
	args := make([]string, 0, 20+len(cmd))
	args = append(args,
		"ssh", "-F", "none", "-p", fmt.Sprint(n.Port), "-i", n.keys.user(), "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile="+n.keys.knownHosts(), "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "HostKeyAlias="+hostAlias, "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR",
		"root@127.0.0.1")
	return append(args, cmd...)
}

// quote makes one word of a shell command.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// state is what other processes know of a node.
type state struct {
	Name, Flavour string
	Process       Process
	Owner         Process // who started it
	Port          int
	Started       time.Time
	Detached      bool
	Options       struct {
		Files      []string
		KernelArgs []string
		LateVar    bool
		MemoryMiB  int
		CPUs       int
	}
}

func (n *Node) writeState() error {
	o := n.options
	s := state{Name: n.Name, Flavour: n.Flavour, Process: n.process, Owner: n.owner, Port: n.Port, Started: n.Started, Detached: o.Detached}
	for _, f := range o.Files {
		s.Options.Files = append(s.Options.Files, f.Path)
	}
	s.Options.KernelArgs, s.Options.LateVar = o.KernelArgs, o.LateVar
	s.Options.MemoryMiB, s.Options.CPUs = o.MemoryMiB, o.CPUs
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(n.Dir, stateName), append(data, '\n'), 0o644)
}
