package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/partition"
)

// layout says where the files of the programs are on a host.
type layout struct {
	// base has a folder for each version, and the link current to one of them.
	base string
	// links lists the paths by which systemd and people know the files. Each leads through current,
	// and never changes. What systemd executes comes last: a reload of somebody else in between finds
	// all files of the generator.
	links []link
}

// link is a path of a file of the payload.
type link struct{ path, file string }

const (
	generatorFile = "partition-generator"
	monitorFile   = "partition-monitor"
	serviceFile   = partition.MonitorService
	catalogFile   = "node-partition.catalog"
)

// modes has the files that a payload has, and no others.
var modes = map[string]fs.FileMode{generatorFile: 0o755, monitorFile: 0o755, serviceFile: 0o644, catalogFile: 0o644}

// layouts returns the two places: below /usr, and below /etc where /usr is read-only. Generators
// run before other file systems are mounted.
func layouts() (usr, etc layout) {
	usr = layout{base: "/usr/libexec/node-partition", links: []link{
		{"/usr/bin/" + monitorFile, monitorFile},
		{"/usr/lib/systemd/catalog/" + catalogFile, catalogFile},
		{"/usr/lib/systemd/system/" + serviceFile, serviceFile},
		{"/usr/lib/systemd/system-generators/" + generatorFile, generatorFile},
	}}
	etc = layout{base: "/etc/systemd/node-partition", links: []link{
		{"/etc/systemd/system/" + serviceFile, serviceFile},
		{"/etc/systemd/system-generators/" + generatorFile, generatorFile},
	}}
	return usr, etc
}

// makes reports whether a folder for a link is made: one beside the versions, for generators in
// /etc.
func (l layout) makes(folder string) bool { return path.Dir(folder) == path.Dir(l.base) }

// current is the link to the folder of the version in force.
func (l layout) current() string { return path.Join(l.base, "current") }

// target returns what a link of the layout leads to.
func (l layout) target(k link) string { return path.Join(l.current(), k.file) }

// layout returns the layout of this host: the one that it has, or else the one that it can have. It
// is an error if nothing can be written there.
func (h *Host) layout(readOnly string) (layout, error) {
	usr, etc := layouts()
	switch {
	case h.Root.Exists(etc.current()):
		return etc, nil
	case readOnly == "":
		return usr, nil
	case h.Root.Exists(usr.current()):
		return usr, record.Because(record.ReadOnlyUsr, "%s is mounted read-only, and this installer has its files there: mount it read-write", readOnly)
	}
	return etc, nil
}

// version returns the folder of the version in force, empty for none.
func (h *Host) version(l layout) (string, error) {
	is, err := h.Present(l.current())
	return is.Link, err
}

// content is the payload as a node has it.
type content struct {
	folder string
	files  map[string][]byte
}

// content returns the payload for a layout and for options of the monitor, which its unit has. A
// folder has the name of a version and a part of the digest of its files.
func (h *Host) content(l layout, monitorArgs string) (content, error) {
	c := content{files: map[string][]byte{}}
	digest := sha256.New()
	for _, name := range sorted(modes) {
		data, err := fs.ReadFile(h.Payload, name)
		if err != nil {
			return c, fmt.Errorf("this program has no payload: make image builds one that has: %w", err)
		}
		if name == serviceFile {
			data, err = serviceUnit(string(data), path.Join(l.current(), monitorFile), monitorArgs)
			if err != nil {
				return c, err
			}
		}
		c.files[name] = data
		fmt.Fprintf(digest, "%s %d\n", name, len(data))
		digest.Write(data)
	}
	c.folder = h.Version + "-" + hex.EncodeToString(digest.Sum(nil))[:12]
	return c, nil
}

// serviceUnit returns the unit of the monitor, with the path of the program and its options. What
// /etc/default/node-partition says goes before these options.
func serviceUnit(text, program, args string) ([]byte, error) {
	for _, line := range []struct{ old, new string }{
		{"\nEnvironment=PARTITION_MONITOR_ARGS=\n", "\nEnvironment=\"PARTITION_MONITOR_ARGS=" + args + "\"\n"},
		{"\nExecStart=/usr/bin/partition-monitor ", "\nExecStart=" + program + " "},
	} {
		if strings.Count(text, line.old) != 1 {
			return nil, fmt.Errorf("%s: want %q once", serviceFile, line.old)
		}
		text = strings.Replace(text, line.old, line.new, 1)
	}
	return []byte(text), nil
}

// changed returns a file of a version on the node that is not as in the payload, empty for none.
func (h *Host) changed(l layout, c content) (string, error) {
	for _, name := range sorted(modes) {
		at := path.Join(l.base, c.folder, name)
		is, err := h.Present(at)
		if err != nil {
			return "", err
		}
		if is != (record.Present{Exists: true, Mode: modes[name], SHA256: Digest(c.files[name])}) {
			return at, nil
		}
	}
	return "", nil
}

// missing returns the links that the host has not. It is an error if something else is there, or
// if there is no folder for one that is needed.
func (h *Host) missing(l layout) ([]link, error) {
	var missing []link
	var foreign []string
	for _, k := range l.links {
		is, err := h.Present(k.path)
		switch folder := path.Dir(k.path); {
		case err != nil:
			return nil, err
		case is.Link == l.target(k):
		case is.Exists:
			foreign = append(foreign, k.path+": was not written by this installer; remove it, or uninstall what it belongs to")
		case h.IsFolder(folder) || l.makes(folder):
			missing = append(missing, k)
		case k.file != catalogFile:
			foreign = append(foreign, k.path+": there is no folder "+folder+" on this host")
		}
	}
	if len(foreign) > 0 {
		return nil, record.Because(record.ForeignFile, "%s", strings.Join(foreign, "\n"))
	}
	return missing, nil
}

// write writes a version to its folder.
func (h *Host) write(ctx context.Context, l layout, c content) error {
	folder := path.Join(l.base, c.folder)
	if err := h.RemoveTree(folder); err != nil { // of a call that was killed
		return err
	}
	if err := h.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, name := range sorted(modes) {
		err := h.WriteBytes(path.Join(folder, name), c.files[name], modes[name])
		if err == nil {
			err = h.label(ctx, path.Join(folder, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlink removes the links of a layout that are ours and that were not there before.
func (h *Host) unlink(l layout, before map[string]record.Present) error {
	for _, k := range slices.Backward(l.links) {
		if err := h.Tidy(k.path); err != nil {
			return err
		}
		is, err := h.Present(k.path)
		//guard: a link that somebody has replaced is removed
		if err == nil && is.Link == l.target(k) && !before[k.path].Exists {
			err = h.Remove(k.path)
		}
		if err != nil {
			return err
		}
		if l.makes(path.Dir(k.path)) {
			h.RemoveEmpty(path.Dir(k.path))
		}
	}
	return nil
}

// prune removes the versions that are not in force.
func (h *Host) prune() error {
	usr, etc := layouts()
	return errors.Join(h.pruneIn(usr), h.pruneIn(etc))
}

// pruneIn removes the folder of a layout as well if no version is in force.
func (h *Host) pruneIn(l layout) error {
	version, err := h.version(l)
	if err != nil {
		return err
	}
	if version == "" {
		return h.RemoveTree(l.base)
	}
	entries, err := h.Root.ReadDir(l.base, maxCgroups)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != version && e.Name() != path.Base(l.current()) {
			if err := h.RemoveTree(path.Join(l.base, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
