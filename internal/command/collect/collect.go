// Package collect makes a bundle of the state of a node for a bug report: what our programs say,
// and the files that are ours, at their paths. Nothing of the kubelet, of pods or of other services
// is read, so that there is nothing to leave out.
package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/command/check"
	"node-partition.io/node-partition/internal/command/status"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Options holds what a bundle is made with. All fields are needed.
type Options struct {
	node.Options
	// Version of the program.
	Version string
	// Args is the command line of the running service, nil if it does not run.
	Args []string
}

const about = `Bundle of partition-monitor collect, for a bug report.

partition-monitor %s, %s

status.json, check.json  partition-monitor status and check, -o json
metrics.txt              the metrics of the service
options.txt              the command line of the service
units.txt                properties of our units
journal-*.txt            messages of our programs in this boot, the last %d lines of each
errors.txt               what could not be read
etc, run, sys, usr, var  files of the node at their paths: the section, our settings, our state and
                         units, what partitions have used, cgroups of pods and of the monitor, the
                         name of the distribution

partition-monitor status, check and recommend read the unpacked bundle with --root=FOLDER.

Names of namespaces, pods and nodes, paths, and addresses of servers are in it: read it before you
send it.
`

const (
	// maxLines bounds the lines of one part of the journal.
	maxLines = 2000
	// maxFiles bounds the files, and maxBytes each of them.
	maxFiles = 100_000
	maxBytes = 1 << 20
	// maxEntries bounds the entries of a folder, and maxDepth the folders in each other.
	maxEntries = 10_000
	maxDepth   = 10
	// partTimeout bounds the time for one part: the runtime, the API server or systemd may hang, which
	// is when a bundle is needed.
	partTimeout = 30 * time.Second
)

// units lists our units, as patterns of systemctl, and properties what is asked for. Environments
// are not among them: a drop-in may set the password of a proxy there.
var (
	units      = []string{"kubepods*.slice", "partition-monitor.service", "partition-generator*", "node-partition-trial*"}
	properties = []string{
		"Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "FragmentPath", "SourcePath", "DropInPaths",
		"NRestarts", "ExecMainStatus", "ActiveEnterTimestamp", "ConditionResult", "NeedDaemonReload", "MemoryMax",
		"MemoryHigh",
		"MemoryMin", "MemoryLow", "MemorySwapMax", "AllowedCPUs", "EffectiveCPUs", "CPUWeight", "TasksMax", "Transient",
	}
)

// ofCgroup reports whether a file of a cgroup is read. Processes are not, and nothing that writing
// alone is for.
func ofCgroup(name string) bool {
	return strings.HasPrefix(name, "memory.") && name != "memory.reclaim" || strings.HasPrefix(name, "cpu") ||
		strings.HasPrefix(name, "pids.") || slices.Contains([]string{
		"cgroup.controllers", "cgroup.subtree_control", "cgroup.events", "cgroup.freeze", "io.pressure",
	}, name)
}

// Name returns the name of a bundle that is made at a time, without an extension.
func Name(t time.Time) string { return "node-partition-" + t.UTC().Format("20060102T150405Z") }

// bundle is a bundle that is being written.
type bundle struct {
	archive *tar.Writer
	made    time.Time
	files   int
	// failed has a line for each file or part that could not be read.
	failed strings.Builder
}

func (b *bundle) add(name string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	err := b.archive.WriteHeader(&tar.Header{
		Name: path.Join(Name(b.made), name), Mode: 0o600, Size: int64(len(data)), ModTime: b.made, Typeflag: tar.TypeReg,
	})
	if err != nil {
		return err
	}
	_, err = b.archive.Write(data)
	return err
}

// addTree adds a file, or the files below a folder whose names are wanted. What is gone, or has no
// content on this kernel, is left out.
func (b *bundle) addTree(root host.Root, name string, wanted func(string) bool, depth int) error {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		b.lacks(name, err)
	case depth > maxDepth:
	case info.IsDir():
		names, err := root.Names(name, maxEntries)
		b.lacks(name, err)
		for _, below := range names {
			if err := b.addTree(root, path.Join(name, below), wanted, depth+1); err != nil {
				return err
			}
		}
	case info.Mode().IsRegular() && wanted(path.Base(name)):
		data, err := root.ReadFile(name, maxBytes)
		b.lacks(name, err)
		if err == nil && b.files < maxFiles {
			b.files++
			return b.add(name, data)
		}
	}
	return nil
}

// lacks notes why a file or a part is not in the bundle; nothing if it is gone, or has no content
// on this kernel.
func (b *bundle) lacks(name string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
		fmt.Fprintf(&b.failed, "%s: %v\n", name, err)
	}
}

// Write writes a bundle, a tar file compressed with gzip. A part that cannot be read is an error in
// the bundle. Write returns the errors of w alone.
func Write(ctx context.Context, w io.Writer, o Options) error {
	zip := gzip.NewWriter(w)
	b := &bundle{archive: tar.NewWriter(zip), made: time.Now()}
	if err := b.add("README.txt", fmt.Appendf(nil, about, o.Version, runtime.Version(), maxLines)); err != nil {
		return err
	}
	for _, p := range parts(o) {
		limited, cancel := context.WithTimeout(ctx, partTimeout)
		data, err := p.read(limited)
		cancel()
		if err != nil {
			fmt.Fprintf(&b.failed, "%s: %v\n", p.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.add(p.name, data); err != nil {
			return err
		}
	}
	root := o.Node.Root
	every := func(string) bool { return true }
	for _, name := range []string{
		kubeletconfig.OverridePath, config.StateDir, sizefile.Dir, "/etc/os-release", "/usr/lib/os-release",
	} {
		if err := b.addTree(root, name, every, 0); err != nil {
			return err
		}
	}
	if err := b.add(kubeletconfig.SettingsPath, settings(root)); err != nil {
		return err
	}
	for _, cgroup := range []string{partition.Default.Slice(), partition.MonitorCgroup} {
		if err := b.addTree(root, path.Join(partition.CgroupMount, cgroup), ofCgroup, 0); err != nil {
			return err
		}
	}
	return errors.Join(b.add("errors.txt", []byte(b.failed.String())), b.archive.Close(), zip.Close())
}

// settings returns the lines with our settings. The same file may have the password of a proxy.
func settings(root host.Root) []byte {
	var ours bytes.Buffer
	data, _ := root.ReadFile(kubeletconfig.SettingsPath, maxBytes) // check reports it
	for line := range bytes.Lines(data) {
		for _, prefix := range []string{"KUBELET_CONFIG", "PARTITION_", "SERVICES_", "SYSTEM_CPUS", "WORKLOAD_PINNING"} {
			if bytes.HasPrefix(line, []byte(prefix)) {
				ours.Write(line)
			}
		}
	}
	return ours.Bytes()
}

// part is a file of the bundle that a program of ours or of systemd writes.
type part struct {
	name string
	read func(context.Context) ([]byte, error)
}

func parts(o Options) []part {
	systemd := func(name string, args ...string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			text, err := o.Node.Systemd.Run(ctx, name, args...)
			return []byte(text), err
		}
	}
	journal := func(match string) func(context.Context) ([]byte, error) {
		return systemd("journalctl", "--boot", "--no-pager", "--quiet", "--output=short-iso-precise",
			fmt.Sprintf("--lines=%d", maxLines), match)
	}
	return []part{
		{status.File, func(ctx context.Context) ([]byte, error) {
			found, err := status.Read(ctx, o.Options)
			var out bytes.Buffer
			err = errors.Join(err, output.JSON(&out, found))
			return out.Bytes(), err
		}},
		{check.File, func(ctx context.Context) ([]byte, error) {
			var out bytes.Buffer
			err := output.JSON(&out, check.Node(ctx, o.Options, nil))
			return out.Bytes(), err
		}},
		{"metrics.txt", func(ctx context.Context) ([]byte, error) {
			page, err := (node.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}).Metrics(ctx)
			return []byte(page), err
		}},
		{"options.txt", func(context.Context) ([]byte, error) { return []byte(strings.Join(o.Args, "\n")), nil }},
		{"units.txt", systemd("systemctl", append([]string{
			"show", "--property=" + strings.Join(properties, ","), "--",
		}, units...)...)},
		{"journal-monitor.txt", journal("--unit=partition-monitor.service")},
		{"journal-generator.txt", journal("--identifier=partition-generator")},
	}
}
