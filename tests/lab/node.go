// Package lab runs disposable Kubernetes nodes: virtual machines with systemd as PID 1, a stock
// container runtime and a stock kubelet that runs static pods without an API server, or joins a
// ControlPlane. A test starts a node, examines it and throws it away. People do the same with
// tests/lab/lab.
//
// Prepare makes the expensive parts once (programs built from their modules, a Debian disk,
// container images) and keeps them in a cache folder. A node boots from an overlay over them with
// files of its own. Those are in place before PID 1 starts, so that systemd's generators see them
// at the first boot.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Options describes a node. The zero value is a node of the default flavour with its static pods.
type Options struct {
	// Name is the node's host name, a DNS label. If it is empty, the node gets a name that is free.
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
	// LateVar puts /var on a file system of its own, which systemd mounts from /etc/fstab. Generators
	// run without it. Files below /var are only on it.
	LateVar bool
	// ControlPlane makes the kubelet join it, as a node of this node's name. A node without one runs
	// only static pods.
	ControlPlane *ControlPlane
	// MemoryMiB is 4096 when zero, CPUs is 2.
	MemoryMiB, CPUs int
	// Restore takes the node from a snapshot of one whose pods run, in seconds. Files are put into the
	// running node, systemd is reloaded, and the kubelet is restarted if it reads one of them or joins
	// a ControlPlane. Options that need a boot are refused: KernelArgs, LateVar, NoPods, another size.
	Restore bool
	// CountInstructions emulates one CPU whose clock counts instructions: CPU time on such a node is a
	// number of instructions times InstructionTime, and does not depend on the load of the host. CPUs
	// has to be 1, because with more of them a process is charged for those of the others.
	CountInstructions bool
	// Detached lets the machine outlive this process, until Stop or "lab down". Otherwise the kernel
	// kills the machine when this process ends.
	Detached bool
	// Progress is called with the steps that take long. It may be nil.
	Progress func(string)
}

// Node is a running machine.
type Node struct {
	// Name is the node's name in the lab, and Flavour the flavour's name.
	Name, Flavour string
	// Hostname is its host name, with which the names of its static pods end. Nodes that are restored
	// from one snapshot share it.
	Hostname string
	// Dir holds its disks and its console's log. Stop removes it.
	Dir string
	// Port is the port of its sshd on loopback.
	Port int
	// Started is the time at which qemu was started.
	Started time.Time

	cache   cache
	keys    keys
	conn    *connection
	http    *http.Client
	process process
	owner   process // the process that started it
	qemu    *qemu   // nil when another process started it
	options Options
	machine machine // the settings of qemu, unless another process started it
	finish  func()  // ends the node of a test, see ForTest
	release func()  // releases its place on the host, if it has one
	// consoleBefore is the offset in the console at which the present boot begins.
	consoleBefore int64
}

// ConsolePath returns the file that the serial console is written to.
func (n *Node) ConsolePath() string { return filepath.Join(n.Dir, consoleName) }

const consoleName = "console.log"

var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Start prepares the flavour if needed, starts a machine and returns when its ssh answers. If that
// fails, or ctx ends before, nothing is left of the machine but its logs. The error names their
// folder.
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
		return nil, fmt.Errorf(
			"node %s: there is one of this name already: choose another or run: lab down %s",
			o.Name, o.Name,
		)
	}
	if err := cache.removeUnfinished(ctx, o.Name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("node %s: %w", o.Name, err)
	}
	n, err := cache.newNode(o, keys, dir)
	if err != nil {
		return nil, err
	}
	if err := n.bootOrRestore(ctx, o, img); err != nil {
		return nil, errors.Join(n.startFailed(ctx, err), os.RemoveAll(dir))
	}
	return n, nil
}

// newNode returns a node whose machine has not been started.
func (c cache) newNode(o Options, k keys, dir string) (*Node, error) {
	config, err := k.clientConfig()
	if err != nil {
		return nil, err
	}
	owner, err := identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", o.Name, err)
	}
	n := &Node{Name: o.Name, Hostname: o.Name, Flavour: o.Flavour, Dir: dir, cache: c, keys: k, owner: owner}
	n.conn = &connection{node: n.Name, config: config}
	n.http = n.httpClient()
	return n, nil
}

func (n *Node) bootOrRestore(ctx context.Context, o Options, img image) error {
	a, err := chooseAccel(ctx, n.cache, img, o.Progress)
	if err != nil {
		return err
	}
	if o.CountInstructions {
		if a = countingEmulation; o.CPUs != 1 {
			return fmt.Errorf("node %s: CountInstructions with %d CPUs: want 1", o.Name, o.CPUs)
		}
	}
	if !o.Restore {
		// See Reboot. A node without a process that watches it reboots by itself.
		return n.boot(ctx, o, machine{Image: img, MemoryMiB: o.MemoryMiB, CPUs: o.CPUs, Accel: a, NoReboot: !o.Detached})
	}
	f, err := FlavourByName(o.Flavour)
	if err != nil {
		return err
	}
	s, err := n.cache.snapshot(ctx, f, img, o.Progress)
	if err != nil {
		return err
	}
	n.Hostname = f.hostName()
	return n.restore(ctx, o, img, a, s)
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
		o.Name = f.hostName() + "-" + id[:6]
	}
	if !nodeName.MatchString(o.Name) {
		return o, fmt.Errorf("node name %q: not a DNS label: use a-z, 0-9 and - only", o.Name)
	}
	if o.ControlPlane != nil && o.Detached {
		return o, fmt.Errorf(
			"node %s: Detached with a ControlPlane: the control plane ends with this process: leave out one of them",
			o.Name,
		)
	}
	if o.MemoryMiB == 0 {
		o.MemoryMiB = defaultMemoryMiB
	}
	if o.CPUs == 0 {
		o.CPUs = defaultCPUs
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Restore {
		if err := o.restorable(); err != nil {
			return o, fmt.Errorf("node %s: %w", o.Name, err)
		}
		if !f.restorable() {
			return o, fmt.Errorf("node %s: Restore: nodes of the flavour %s cannot be restored: boot it", o.Name, f.Name)
		}
	}
	return o, nil
}

// The default size of a node. Emulated CPUs that wait for one another, at each TLB flush, wait for
// their turn on the host's. So two cost less than four (62 s of CPU time for a boot until pods run
// instead of 90).
const defaultMemoryMiB, defaultCPUs = 4096, 2

// CheckRunning returns an error if the machine has ended. Another node may have its port then, and
// all nodes have the same host key.
func (n *Node) CheckRunning() error {
	if n.process.alive() {
		return nil
	}
	return fmt.Errorf(
		"node %s has ended: its console is in %s: remove it with: lab down %s",
		n.Name, n.ConsolePath(), n.Name,
	)
}

// Run runs a shell command as root and returns its standard output. If it ends with another status
// than 0, the error is a *CommandError. Without a deadline in ctx it may take defaultTimeout.
func (n *Node) Run(ctx context.Context, cmd string) (string, error) {
	return n.conn.run(ctx, cmd)
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
	// A running program's file cannot be written to, and a unit may read a file at any moment. So tar
	// removes the old file and makes a new one.
	return n.conn.runWith(ctx, "tar --unlink-first --keep-directory-symlink -xpf - -C /", &archive)
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

// Quote makes one word of a shell command.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// state describes a node for other processes.
type state struct {
	Name, Flavour string
	Hostname      string
	Process       process
	Owner         process // the process that started it
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
	s := state{
		Name:     n.Name,
		Flavour:  n.Flavour,
		Hostname: n.Hostname,
		Process:  n.process,
		Owner:    n.owner,
		Port:     n.Port,
		Started:  n.Started,
		Detached: o.Detached,
	}
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
