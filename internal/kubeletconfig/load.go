package kubeletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"node-partition.io/node-partition/internal/host"
)

// OverridePath holds the sections of partitions for a kubelet that must not see them, in a
// KubeletConfiguration with these alone. Each of the sections that it has replaces the one in the
// kubelet's own files, as a whole.
const OverridePath = "/etc/kubernetes/node-partition.yaml"

// TrialPath holds sections on trial, in the form of OverridePath and in its place. A reboot removes
// it, like everything in /run.
const TrialPath = "/run/node-partition/trial.yaml"

// The fields of a KubeletConfiguration that this project reads, its sections.
const (
	// SectionField is the system partition (KEP-5894).
	SectionField = "systemPartition"
	// WorkloadsField is a map of the other partitions, by their names. Drop-ins merge it by name, and
	// a null removes a partition.
	WorkloadsField = "workloadPartitions"
)

// sectionFields lists the fields that this project reads.
func sectionFields() []string { return []string{SectionField, WorkloadsField} }

// The well-known places of the main file; the first that exists is used.
var wellKnownFiles = []string{
	"/var/lib/kubelet/config.yaml",                // kubeadm
	ambiguousFile,                                 // OpenShift; with kubeadm this is a kubeconfig
	"/etc/kubernetes/kubelet/config.json",         // Amazon EKS, nodeadm
	"/etc/kubernetes/kubelet/kubelet-config.json", // Amazon EKS, before nodeadm
}

// ambiguousFile is the only well-known path that may hold something other than a kubelet's
// configuration.
const ambiguousFile = "/etc/kubernetes/kubelet.conf"

// The well-known drop-in directories; all that exist are used, in this order.
var wellKnownDirs = []string{
	"/etc/kubernetes/kubelet/config.json.d",          // Amazon EKS, nodeadm
	"/etc/openshift/kubelet.conf.d",                  // OpenShift
	"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",  // k3s
	"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", // RKE2
}

const (
	dropinExtension = ".conf"
	maxDirEntries   = 1000
	maxDirDepth     = 16
)

func (l *loader) looked(name, result string) {
	l.config.Looked = append(l.config.Looked, Look{name, result})
}

const (
	lookRead    = "read"
	lookMissing = "not there"
)

// Load finds, reads and merges the configuration below root. If there is none, the Config has only
// Looked, Late and Awaited. With an error the Config has these, RuntimeEndpoint, and as much of
// Kubelet as could be read, because the kubelet needs its reserved cgroups also if a section or a
// setting is broken. Without a valid KUBELET_CONFIG the well-known places are read.
func Load(root host.Root) (*Merged, error) { return LoadWith(root, nil) }

// Candidate is a document that is not in force yet. Messages call it Name.
type Candidate struct {
	Name string
	Data []byte
}

// LoadWith is Load with a document in place of OverridePath and TrialPath, to validate the document
// before it is written there; nil for none.
func LoadWith(root host.Root, candidate *Candidate) (*Merged, error) {
	settings, err := readSettings(root)
	l := loader{
		root: root, candidate: candidate, mounts: host.ReadMounts(root), left: maxTotalBytes,
		config: &Merged{Settings: settings},
	}
	err = errors.Join(err, l.load(settings))
	l.config.Watchable = l.mounts.Watchable(OverridePath)
	if err != nil {
		c := l.config
		c.System, c.Workloads, c.Pinning = Section{}, Section{}, Pinning{}
		c.overriding, c.Warnings, c.Idle = document{}, nil, nil
	}
	return l.config, err
}

func (l *loader) load(settings Settings) error {
	if err := l.mainFile(settings); err != nil {
		return err
	}
	if err := l.dropins(settings); err != nil {
		return err
	}
	l.merge()
	l.findLate()
	if l.mainIsLate() {
		// Drop-ins alone are half a configuration. The section is validated when the rest is there.
		l.config.System, l.config.Workloads = Section{}, Section{}
		delete(l.config.fields, "enforceNodeAllocatable") // for the same reason
	}
	wrongType := l.config.decode(&l.config.Kubelet, l.config.fields)
	if err := l.override(); err != nil {
		return err
	}
	//guard: the pinning file waits for the main file
	if !l.mainIsLate() {
		if err := l.pinning(settings[pinningKey]); err != nil {
			return err
		}
	}
	if !l.config.hasSection() {
		l.config.Awaited = l.awaited()
		return nil // a value of the wrong type is the kubelet's business then
	}
	return wrongType
}

// findLate finds what may come with a file system that is not mounted yet.
func (l *loader) findLate() {
	// A look below an idle automount would mount the file system there.
	//guard: the override below an idle automount is not looked at
	if l.mounts.Idle(OverridePath) || !l.root.Exists(OverridePath) {
		l.missing = append(l.missing, OverridePath)
	}
	l.config.Late = l.mounts.Late(l.missing, l.dirs)
}

// awaited returns the paths where what is missing may be made later, on a node without a section.
func (l *loader) awaited() Awaited {
	var a Awaited
	if l.noOverride {
		l.await(&a, OverridePath, OverridePath, &a.Files)
	}
	if len(l.config.docs) > 0 {
		return a
	}
	for _, name := range l.mainFiles {
		if name != ambiguousFile { // a kubeconfig there is no configuration that has come
			l.await(&a, name, name, &a.Files)
		}
	}
	for _, dir := range l.dirs {
		l.await(&a, dir, dir+"/*"+dropinExtension, &a.Globs)
	}
	return a
}

// await adds a pattern of names at or below a path to watched, if the path can be watched.
func (l *loader) await(a *Awaited, name, pattern string, watched *[]string) {
	if !l.mounts.Watchable(name) {
		a.Unwatched = append(a.Unwatched, name)
		return
	}
	*watched = append(*watched, pattern)
}

// mainIsLate reports whether there is no main file yet and one may still be mounted.
func (l *loader) mainIsLate() bool {
	return !l.config.hasMain &&
		slices.ContainsFunc(l.config.Late.Paths, func(name string) bool { return slices.Contains(l.mainFiles, name) })
}

type loader struct {
	root    host.Root
	left    int64    // bytes that may still be read
	missing []string // checked and not found
	mounts  *host.Mounts
	config  *Merged

	mainFiles []string // paths checked for a main file
	dirs      []string // directories checked for drop-ins

	noOverride bool // there is no OverridePath

	candidate *Candidate // nil unless a document is validated before it is in force
}

// readPlace reads a file at one of the usual places. Below an idle automount it counts as missing,
// because a look would mount a file system that the node may never need.
func (l *loader) readPlace(name string) (document, error) {
	if l.mounts.Idle(name) {
		l.config.Idle = append(l.config.Idle, name)
		return document{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return l.read(name)
}

func (l *loader) read(name string) (document, error) {
	data, err := l.root.ReadFile(name, min(maxFileBytes, l.left))
	return l.parse(name, data, err)
}

func (l *loader) parse(name string, data []byte, err error) (document, error) {
	if len(data) > maxFileBytes {
		err = fmt.Errorf("%s: %w: more than %d bytes", name, host.ErrTooLarge, maxFileBytes)
	}
	if err != nil {
		if errors.Is(err, host.ErrTooLarge) {
			return document{}, fmt.Errorf("%w; a kubelet's configuration is at most %d bytes, %d with its drop-ins",
				err, maxFileBytes, maxTotalBytes)
		}
		return document{}, err
	}
	l.left -= int64(len(data))
	doc, err := parseDocument(name, data)
	if err != nil && (len(data) == 0 || mentionsSection(data)) {
		err = &errSection{err}
	}
	return doc, err
}

// mentionsSection reports whether the name of a section is in a file that cannot be parsed.
func mentionsSection(data []byte) bool {
	return slices.ContainsFunc(sectionFields(), func(name string) bool { return bytes.Contains(data, []byte(name)) })
}

// errSection is an error in a file that has the section, or may be about to have it: an empty file
// is still being written.
type errSection struct{ error }

func (e *errSection) Unwrap() error { return e.error }

func (l *loader) mainFile(settings Settings) error {
	if name := settings[fileKey]; name != "" {
		l.mainFiles = []string{name}
		doc, err := l.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			l.missing = append(l.missing, name)
			if l.config.Late = l.mounts.Late(l.missing, nil); len(l.config.Late.Paths) == 0 {
				l.await(&l.config.Awaited, name, name, &l.config.Awaited.Files)
				return fmt.Errorf("%w; change %s in %s", err, fileKey, SettingsPath)
			}
			l.looked(name, lookMissing)
			return nil
		}
		l.config.hasMain = true
		return l.add(doc, err)
	}
	l.mainFiles = wellKnownFiles
	for i, name := range wellKnownFiles {
		doc, err := l.readPlace(name)
		if errors.Is(err, fs.ErrNotExist) {
			l.missing = append(l.missing, name)
			l.looked(name, lookMissing)
			continue
		}
		if err != nil && name == ambiguousFile && !errors.As(err, new(*errSection)) {
			// With kubeadm this is a kubeconfig, which needs no warning.
			if other := new(errOtherKind); !errors.As(err, &other) || other.kind != "Config" {
				l.config.Warnings = append(l.config.Warnings, fmt.Sprintf("%v, ignoring the file", err))
			}
			l.looked(name, "skipped, not a KubeletConfiguration")
			continue
		}
		l.config.hasMain = true
		err = l.add(doc, err)
		for _, other := range wellKnownFiles[i+1:] {
			l.looked(other, "not read, "+name+" exists")
		}
		return err
	}
	return nil
}

func (l *loader) add(doc document, err error) error {
	if err != nil {
		return err
	}
	l.seen(doc)
	l.config.docs = append(l.config.docs, doc)
	l.config.Files = append(l.config.Files, doc.path)
	return nil
}

func (l *loader) seen(doc document) {
	l.looked(doc.path, lookRead)
	for _, remark := range doc.remarks {
		l.config.Warnings = append(l.config.Warnings, doc.path+": "+remark)
	}
	l.nearMisses(doc)
}

func (l *loader) dropins(settings Settings) error {
	dirs := wellKnownDirs
	if dir := settings[dirKey]; dir != "" {
		dirs = []string{dir}
		if _, err := l.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) && len(l.mounts.Late(dirs, nil).Paths) == 0 {
			return fmt.Errorf("%w; change %s in %s", err, dirKey, SettingsPath)
		}
	}
	l.dirs = dirs
	for _, dir := range dirs {
		idle := settings[dirKey] == "" && l.mounts.Idle(dir)
		var info fs.FileInfo
		var err error
		if idle {
			l.config.Idle = append(l.config.Idle, dir)
		} else {
			// A link in place of the directory is not followed: neither filepath.WalkDir nor the kubelet
			// does so.
			info, err = l.root.Lstat(dir)
		}
		if idle || errors.Is(err, fs.ErrNotExist) {
			l.missing = append(l.missing, dir)
			l.looked(dir, lookMissing)
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			l.config.Warnings = append(
				l.config.Warnings,
				fmt.Sprintf("%s: not a directory, and the kubelet follows no link here, ignoring", dir),
			)
			continue
		}
		if err := l.walk(dir, 0); err != nil {
			return err
		}
	}
	return nil
}

// walk reads the drop-ins below dir in the order of filepath.WalkDir.
func (l *loader) walk(dir string, depth int) error {
	if depth > maxDirDepth {
		return fmt.Errorf("%s: more than %d directories deep; keep drop-ins flat", dir, maxDirDepth)
	}
	entries, err := l.root.ReadDir(dir, maxDirEntries)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		switch {
		case entry.IsDir():
			err = l.walk(name, depth+1)
		case path.Ext(entry.Name()) == dropinExtension:
			err = l.add(l.read(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
