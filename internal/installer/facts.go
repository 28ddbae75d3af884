package installer

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// unfit returns why this node cannot have the installation, whatever the section: the first reason
// is the one that the others would follow from. It writes nothing.
func (h *Host) unfit(ctx context.Context) error {
	//guard: a node without cgroup v2 is refused for that reason, whatever else is wrong
	if !h.Root.Exists(partition.CgroupMount + "/cgroup.controllers") {
		return record.Because(record.CgroupV1,
			"this node has no cgroup v2 at %s: boot it with systemd.unified_cgroup_hierarchy=1", partition.CgroupMount)
	}
	cmdline, err := h.Root.ReadFile("/proc/cmdline", 64<<10)
	words := strings.Fields(strings.ReplaceAll(string(cmdline), "-", "_"))
	if err == nil && slices.Contains(words, config.OffSwitch+"=0") {
		return record.Because(record.Check, "%s=0 on the kernel command line switches all partitions off: remove it, and reboot", config.OffSwitch)
	}
	if err := h.owner(ctx); err != nil {
		return err
	}
	if folder := h.unlabelled(); folder != "" {
		return record.Because(record.SELinux,
			"SELinux enforces, and %s has no label that its files could take over: restorecon -R it, or label it in the policy", folder)
	}
	// What cannot be read, validate says.
	if merged, _ := kubeletconfig.Load(h.Root); merged != nil && merged.Kubelet.FeatureGates[config.Gate] {
		return record.Because(record.KubeletGate,
			"%s: featureGates: %s is on: the kubelet makes the system partition itself; switch the gate off, or leave the node out",
			merged.FileWith("featureGates"), config.Gate)
	}
	slice := partition.Default.Cgroup()
	if other := strings.TrimSuffix(slice, ".slice"); h.IsFolder(other) && !h.IsFolder(slice) {
		return record.Because(record.Cgroupfs,
			"the pods of this node are in %s, and so the cgroup driver is cgroupfs: set cgroupDriver: systemd, and SystemdCgroup = true for containerd", other)
	}
	return nil
}

// The files that say who else has installed the programs.
const (
	dpkgList  = "/var/lib/dpkg/info/node-partition.list"
	extension = "/usr/lib/extension-release.d/extension-release.node-partition"
)

// shadows lists the folders that systemd prefers to a package's.
var shadows = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd"}

// owner returns an error if something else has installed the programs.
func (h *Host) owner(ctx context.Context) error {
	switch {
	case h.Root.Exists(dpkgList):
		return record.Because(record.ForeignFile, "the package node-partition is installed (dpkg): upgrade the package, or remove it")
	case h.Root.Exists(extension):
		return record.Because(record.ForeignFile, "the programs come from a system extension: update that, or remove it")
	}
	_, etc := layouts()
	for _, folder := range shadows {
		for _, name := range []string{"/system-generators/partition-generator", "/system/" + partition.MonitorService} {
			is, err := h.Present(folder + name)
			if err != nil {
				return err
			}
			if is.Exists && !strings.HasPrefix(is.Link, etc.current()+"/") {
				return record.Because(record.ForeignFile, "%s goes before the file of this installer: make uninstall with its PREFIX, or remove it", folder+name)
			}
		}
	}
	// A database of RPM has no file for a package.
	database := h.Root.Exists("/usr/lib/sysimage/rpm") || h.Root.Exists("/var/lib/rpm")
	if database && h.Root.Exists("/usr/bin/rpm") {
		if _, err := h.Programs.Run(ctx, "rpm", "-q", "node-partition"); err == nil {
			return record.Because(record.ForeignFile, "the package node-partition is installed (rpm): upgrade the package, or remove it")
		}
	}
	return nil
}

// readOnly returns the mount of /usr if it is read-only. This process sees all mounts read-only, so
// systemd is asked, which reads its own.
func (h *Host) readOnly(ctx context.Context) (string, error) {
	mounts, err := h.show(ctx, "Id,ActiveState,Where,Options", "usr.mount", "-.mount")
	if err != nil {
		return "", err
	}
	for _, m := range mounts { // the nearest one first
		if m["ActiveState"] != "active" {
			continue
		}
		if slices.Contains(strings.Split(m["Options"], ","), "ro") {
			return m["Where"], nil
		}
		return "", nil
	}
	return "", nil
}

// enforcing reports whether SELinux enforces its policy.
func (h *Host) enforcing() bool {
	data, err := h.Root.ReadFile("/sys/fs/selinux/enforce", 16)
	return err == nil && strings.TrimSpace(string(data)) == "1"
}

// The folders whose labels the files of the programs get: one for what is executed, and one for
// what systemd reads.
const (
	programs = "/usr/bin"
	units    = "/usr/lib/systemd/system"
)

// unlabelled returns a folder without a label that new files could take over, where SELinux
// enforces; empty for none.
func (h *Host) unlabelled() string {
	for _, folder := range []string{programs, units} {
		if h.enforcing() && !h.trusted(folder) {
			return folder
		}
	}
	return ""
}

// ReadLabel returns the label that SELinux has for a file of this machine.
func ReadLabel(path string) (string, error) {
	text := make([]byte, 256)
	n, err := unix.Getxattr(path, labelAttribute, text)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(text[:n]), "\x00"), nil
}

// trusted reports whether the label of a path is one that a host's own file may have: files of
// containers, and files without a label, are not executed by systemd.
func (h *Host) trusted(path string) bool {
	label, err := h.Label(h.onDisk(path))
	if err != nil || label == "" {
		return false
	}
	for _, foreign := range []string{"unlabeled_t", "container_file_t", "container_ro_file_t", "svirt_sandbox_file_t"} {
		if strings.Contains(label, ":"+foreign) {
			return false
		}
	}
	return true
}

// label gives a file of the programs its label, where SELinux enforces: that of the host's
// programs, or of its units. systemd executes no file with the label of a container, or with none.
func (h *Host) label(ctx context.Context, name string) error {
	if !h.enforcing() {
		return nil
	}
	like := units
	if modes[path.Base(name)] == 0o755 {
		like = programs
	}
	//guard: new files keep the label of their folder under SELinux
	if _, err := h.Programs.Run(ctx, "chcon", "--reference="+h.onDisk(like), h.onDisk(name)); err != nil {
		return record.Because(record.SELinux, "labels of the new files: %w", err)
	}
	return nil
}

// reasonOfCheck returns the word for a finding of partition-monitor check.
func reasonOfCheck(f state.Finding) record.Reason {
	if f.Check == "cgroup-driver" || f.Check == "kubelet" && strings.Contains(f.Found, "cgroup-driver") {
		return record.Cgroupfs
	}
	return record.Check
}

// errorOf returns the error of what partition-monitor check has found, with the first as its
// reason.
func errorOf(found []state.Finding) error {
	if len(found) == 0 {
		return nil
	}
	texts := make([]string, 0, len(found))
	for _, f := range found {
		text := f.Check + ": " + f.Found
		if f.Change != "" {
			text += "; change: " + f.Change
		}
		texts = append(texts, text)
	}
	return record.Because(reasonOfCheck(found[0]), "partition-monitor check: %s", strings.Join(texts, "\n"))
}

// errorOfSection returns the error of a section that is not valid here.
func (h *Host) errorOfSection(v state.Validation) error {
	if v.Valid {
		return nil
	}
	reason := record.Section
	texts := make([]string, 0, len(v.Problems))
	for _, p := range v.Problems {
		if strings.Contains(p.Field, "cgroupDriver") || strings.Contains(p.Message, "cgroupDriver") {
			reason = record.Cgroupfs
		}
		text := p.Message
		if p.Field != "" {
			text = p.Field + ": " + text
		}
		// Whoever reads it looks for a file that is gone by then.
		if p.File != h.onDisk(h.In(Section)) {
			text = p.File + ": " + text
		}
		texts = append(texts, text)
	}
	return record.Because(reason, "%s", strings.Join(texts, "\n"))
}
