package host

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/state"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// oldestSystemd is the minimum that README names.
const oldestSystemd = 252

// facts describes a node before anything is written.
type facts struct {
	// unified is true for cgroup v2.
	unified bool
	// systemd is systemd's version as it says it.
	systemd string
	// readOnly is the mount of the programs if it is read-only; empty if not.
	readOnly string
	// enforcing is true for SELinux in that mode. unlabelled is a folder of ours without a label that
	// systemd trusts; empty for none.
	enforcing  bool
	unlabelled string
	// owner says what else has installed the programs; empty for none.
	owner string
	// gate is the kubelet's file with its own feature gate on; empty for none.
	gate string
	// driver is the configured cgroup driver of the kubelet, and driverFrom names the file or option
	// that sets it. Both are empty if none does.
	driver, driverFrom string
	// elsewhere is the cgroup of the pods if it is not a slice of systemd; empty if it is one.
	elsewhere string
	// off is true if the kernel command line switches partitions off.
	off bool
}

// judge returns why a node with these facts cannot have the installation. The first reason is the
// one that the others would follow from.
func (f *facts) judge() error {
	switch version := leadingNumber(f.systemd); {
	case !f.unified:
		return outcome.Because(outcome.CgroupV1,
			"this node has no cgroup v2 at %s: boot it with systemd.unified_cgroup_hierarchy=1", unitname.CgroupMount)
	//guard: a node with a systemd that is too old is not refused
	case version > 0 && version < oldestSystemd:
		return outcome.Because(outcome.Check, "systemd %s is too old: want %d or later", f.systemd, oldestSystemd)
	case f.off:
		return outcome.Because(outcome.Check, "%s=0 on the kernel command line switches all partitions off: remove it, and reboot", config.OffSwitch)
	case f.owner != "":
		return outcome.Because(outcome.ForeignFile, "%s", f.owner)
	case f.enforcing && f.unlabelled != "":
		return outcome.Because(outcome.SELinux,
			"SELinux enforces, and %s has no label that its files could take over: restorecon -R it, or label it in the policy", f.unlabelled)
	case f.gate != "":
		return outcome.Because(outcome.KubeletGate,
			"%s: featureGates: %s is on: the kubelet makes the system partition itself; switch the gate off, or leave the node out", f.gate, config.Gate)
	case f.elsewhere != "":
		return outcome.Because(outcome.Cgroupfs,
			"the pods of this node are in %s, and so the cgroup driver is cgroupfs: set cgroupDriver: systemd, and SystemdCgroup = true for containerd", f.elsewhere)
	case f.driver != "" && f.driver != "systemd":
		return outcome.Because(outcome.Cgroupfs,
			"the cgroup driver is %s, set by %s: set cgroupDriver: systemd, and SystemdCgroup = true for containerd", f.driver, f.driverFrom)
	}
	return nil
}

func leadingNumber(version string) int {
	digits := strings.TrimLeft(version, "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	number, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return number
}

// The files that say who else has installed the programs.
const (
	dpkgList  = "/var/lib/dpkg/info/node-partition.list"
	extension = "/usr/lib/extension-release.d/extension-release.node-partition"
)

// shadows lists the folders that systemd prefers to a package's.
var shadows = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd"}

// gather reads the facts. It writes nothing.
func (h *Host) gather(ctx context.Context) (facts, error) {
	var f facts
	f.unified = h.Root.Exists(unitname.CgroupMount + "/cgroup.controllers")
	//guard: a node without cgroup v2 is refused for that reason, whatever else is wrong
	if !f.unified {
		return f, nil // nothing else matters, and the programs could not say more
	}
	properties, err := h.show(ctx, "Version")
	if err != nil {
		return f, err
	}
	f.systemd = properties[0]["Version"]
	if cmdline, err := h.Root.ReadFile("/proc/cmdline", 64<<10); err == nil {
		f.off = slices.Contains(strings.Fields(strings.ReplaceAll(string(cmdline), "-", "_")), config.OffSwitch+"=0")
	}
	if f.owner, err = h.owner(ctx); err != nil {
		return f, err
	}
	if f.readOnly, err = h.readOnly(ctx); err != nil {
		return f, err
	}
	f.enforcing = h.enforcing()
	if f.enforcing {
		f.unlabelled = h.unlabelled()
	}
	h.kubelet(&f)
	return f, nil
}

// owner returns what else has installed the programs.
func (h *Host) owner(ctx context.Context) (string, error) {
	switch {
	case h.Root.Exists(dpkgList):
		return "the package node-partition is installed (dpkg): upgrade the package, or remove it", nil
	case h.Root.Exists(extension):
		return "the programs come from a system extension: update that, or remove it", nil
	}
	for _, folder := range shadows {
		for _, name := range []string{"/system-generators/partition-generator", "/system/" + unitname.MonitorService} {
			is, err := h.Present(folder + name)
			if err != nil {
				return "", err
			}
			_, etc := layouts()
			if is.Exists && !strings.HasPrefix(is.Link, etc.current()+"/") {
				return folder + name + " goes before the file of this installer: make uninstall with its PREFIX, or remove it", nil
			}
		}
	}
	// A database of RPM has no file for a package.
	database := h.Root.Exists("/usr/lib/sysimage/rpm") || h.Root.Exists("/var/lib/rpm")
	if database && h.Root.Exists("/usr/bin/rpm") {
		if ran, err := h.Programs.Run(ctx, "rpm", "-q", "node-partition"); err == nil && ran.Status == 0 {
			return "the package node-partition is installed (rpm): upgrade the package, or remove it", nil
		}
	}
	return "", nil
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

// kubelet reads what the kubelet is told, and sees where its pods are: this stage was asked for by
// one of them.
func (h *Host) kubelet(f *facts) {
	slice := unitname.Default.Cgroup()
	if other := strings.TrimSuffix(slice, ".slice"); h.IsFolder(other) && !h.IsFolder(slice) {
		f.elsewhere = other
	}
	merged, err := kubeletconfig.Load(h.Root)
	if merged == nil || err != nil && merged.Kubelet.CgroupDriver == "" {
		return // validate says why
	}
	if merged.Kubelet.FeatureGates[config.Gate] {
		f.gate = merged.FileWith("featureGates")
	}
	f.driver, f.driverFrom = merged.Kubelet.CgroupDriver, "the kubelet's configuration"
	//guard: the cgroup driver on the kubelet's command line does not count
	if kubelet, err := kubeletargs.Running(h.Root); err == nil && kubelet.CgroupDriver != "" {
		f.driver, f.driverFrom = kubelet.CgroupDriver, "the kubelet's --cgroup-driver"
	}
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

// unlabelled returns a folder without a label that new files could take over.
func (h *Host) unlabelled() string {
	for _, folder := range []string{programs, units} {
		if !h.trusted(folder) {
			return folder
		}
	}
	return ""
}

// ReadLabel returns the label that SELinux has for a file of this machine.
func ReadLabel(path string) (string, error) {
	text := make([]byte, 256)
	n, err := unix.Getxattr(path, "security.selinux", text)
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

// label gives files the label of another one, where SELinux enforces. systemd executes no file with
// the label of a container, or with none.
func (h *Host) label(ctx context.Context, like string, names ...string) error {
	if !h.enforcing() {
		return nil
	}
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, h.onDisk(name))
	}
	//guard: new files keep the label of their folder under SELinux
	if _, err := h.run(ctx, "chcon", append([]string{"--reference=" + h.onDisk(like)}, paths...)...); err != nil {
		return outcome.Because(outcome.SELinux, "labels of the new files: %w", err)
	}
	return nil
}

// labelVersion gives the files of a version their labels.
func (h *Host) labelVersion(ctx context.Context, l layout, version string) error {
	in := func(name string) string { return path.Join(l.base, version, name) }
	if err := h.label(ctx, programs, in(monitorFile), in(generatorFile)); err != nil {
		return err
	}
	return h.label(ctx, units, in(serviceFile), in(catalogFile))
}

// reasonOfCheck returns the word for a finding of partition-monitor check.
func reasonOfCheck(f state.Finding) outcome.Reason {
	if f.Check == "cgroup-driver" || f.Check == "kubelet" && strings.Contains(f.Found, "cgroup-driver") {
		return outcome.Cgroupfs
	}
	return outcome.Check
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
	return outcome.Because(reasonOfCheck(found[0]), "partition-monitor check: %s", strings.Join(texts, "\n"))
}

// errorOfSection returns the error of a section that is not valid here.
func errorOfSection(v state.Validation) error {
	if v.Valid {
		return nil
	}
	reason := outcome.Section
	texts := make([]string, 0, len(v.Problems))
	for _, p := range v.Problems {
		if strings.Contains(p.Field, "cgroupDriver") || strings.Contains(p.Message, "cgroupDriver") {
			reason = outcome.Cgroupfs
		}
		text := p.Message
		if p.Field != "" {
			text = p.Field + ": " + text
		}
		texts = append(texts, fmt.Sprintf("%s: %s", p.File, text))
	}
	return outcome.Because(reason, "%s", strings.Join(texts, "\n"))
}
