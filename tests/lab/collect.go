package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// collected lists the files that Collect writes, with the commands whose output they hold.
func collected() [][2]string {
	return [][2]string{
		{"journal.txt", "journalctl --no-pager -o short-precise --boot all 2>&1 || journalctl --no-pager -o short-precise"},
		{"dmesg.txt", "dmesg"},
		{
			"units.txt",
			"systemctl --no-pager --no-legend list-units --all; systemctl --no-pager --failed; systemctl --no-pager --full --lines=0 status kubelet containerd crio 'partition-*' 'kubepods-system*' 2>&1; true",
		},
		{"slices.txt", "systemctl --no-pager show 'kubepods*.slice' 'cri-containerd-*.scope' 'crio-*.scope' 2>&1; true"},
		{
			"generated.txt",
			"find /run/systemd/generator* /run/systemd/transient /run/systemd/system.control -type f 2>/dev/null -exec tail -n +1 {} + ; true",
		},
		{"cgroups.txt", "find /sys/fs/cgroup -type f \\( " + cgroupFiles + " \\) -exec grep -sH '' {} +; true"},
		{"kubelet-config.yaml", "cat " + KubeletConfigPath},
		{"pods.json", "busybox wget -q -O - " + kubeletPodsURL},
		{
			"containers.txt",
			"if command -v crio >/dev/null; then crio status --socket /run/crio/crio.sock config | head -400; crun list; else ctr -n k8s.io containers list; ctr -n k8s.io tasks list; fi",
		},
		{"files.txt", "ls -laR /etc/kubernetes /etc/default /var/lib/kubelet --ignore=pods 2>&1; true"},
		{"mounts.txt", "cat /proc/self/mountinfo; df -h"},
		{
			"boot.txt",
			"systemd-analyze time; systemd-analyze blame --no-pager | head -60; systemd-analyze critical-chain --no-pager",
		},
	}
}

// cgroupFiles selects the files of each cgroup that Collect reads, as arguments of find.
const cgroupFiles = "-name cgroup.procs -o -name 'memory.*' -o -name 'cpu.*' -o -name 'cpuset.*' -o -name pids.max"

// panicMark is the message of a panicking kernel on its console.
const panicMark = "Kernel panic - not syncing"

// guestPanic returns an error with the panic of the guest's kernel, if its console shows one.
// Without it a failed test would blame its last command.
func guestPanic(console []byte) error {
	if !bytes.Contains(console, []byte(panicMark)) {
		return nil
	}
	lines := strings.Split(strings.ReplaceAll(string(console), "\r", ""), "\n")
	first := slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, "Oops") || strings.Contains(line, "BUG:") || strings.Contains(line, panicMark)
	})
	return fmt.Errorf("the guest's kernel panicked:\n%s", strings.Join(lines[first:min(first+12, len(lines))], "\n"))
}

// Collect writes the material to explain a failure into dir: the journal, the cgroup tree with its
// limits, units, pods, the kubelet's configuration and the console. It continues after a part that
// fails. The error names the parts.
func (n *Node) Collect(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("collect from node %s: %w", n.Name, err)
	}
	var failed []error
	console, err := os.ReadFile(n.ConsolePath())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "console.log"), console, 0o644)
	}
	failed = append(failed, err)
	asked := collected()
	if err := n.CheckRunning(); err != nil {
		failed, asked = append(failed, guestPanic(console), err), nil
	}
	for _, c := range asked {
		out, err := n.Run(ctx, c[1])
		if err != nil {
			// A panic may be of an earlier boot; of a machine that ends, qemu takes a moment.
			if ended := errors.Join(guestPanic(console), n.CheckRunning()); ended != nil {
				failed = append(failed, ended)
				break
			}
			failed = append(failed, err)
			if out == "" {
				out = err.Error() + "\n"
			}
		}
		failed = append(failed, os.WriteFile(filepath.Join(dir, c[0]), []byte(out), 0o644))
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("collect from node %s: %w", n.Name, err)
	}
	return nil
}

// Cgroup is one folder of a node's cgroup tree.
type Cgroup struct {
	// Path begins with / and is relative to /sys/fs/cgroup.
	Path string
	// Values are the files that were asked for and that the folder has, without the last newline.
	Values map[string]string
}

// CgroupTree returns every folder below /sys/fs/cgroup, sorted by path, with the content of the
// named files, "memory.max" for instance. Folders may come and go meanwhile.
func (n *Node) CgroupTree(ctx context.Context, files ...string) ([]Cgroup, error) {
	out, err := n.Run(ctx, "find /sys/fs/cgroup -type d 2>/dev/null; true")
	if err != nil {
		return nil, err
	}
	const root = "/sys/fs/cgroup"
	tree := map[string]Cgroup{}
	for _, line := range strings.Fields(out) {
		p := "/" + strings.TrimPrefix(strings.TrimPrefix(line, root), "/")
		tree[p] = Cgroup{Path: p, Values: map[string]string{}}
	}
	if len(files) > 0 {
		var names []string
		for _, f := range files {
			names = append(names, "-name "+Quote(f))
		}
		// grep -H prefixes each line with its file, even if there is only one file.
		out, err := n.Run(ctx, "find "+root+" -type f \\( "+strings.Join(names, " -o ")+" \\) -exec grep -sH '' {} +; true")
		if err != nil {
			return nil, err
		}
		addValues(tree, root, out)
	}
	all := make([]Cgroup, 0, len(tree))
	for _, c := range tree {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Path < all[j].Path })
	return all, nil
}

// addValues reads lines such as "/sys/fs/cgroup/init.scope/memory.max:max". A unit's name has
// colons, a file's has none.
func addValues(tree map[string]Cgroup, root, lines string) {
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		slash := strings.LastIndex(strings.SplitN(line, " ", 2)[0], "/")
		if slash < 0 {
			continue
		}
		file, value, ok := strings.Cut(line[slash+1:], ":")
		if !ok {
			continue
		}
		c, ok := tree["/"+strings.TrimPrefix(strings.TrimPrefix(line[:slash], root), "/")]
		if !ok {
			continue
		}
		if old, ok := c.Values[file]; ok {
			value = old + "\n" + value
		}
		c.Values[file] = value
	}
}
