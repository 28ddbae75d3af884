// Package manifest plans which files of a node a roll of the fleet installer writes, and compares a
// node with what it was. It reads and writes nothing.
package manifest

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// File is a regular file of ours on the node.
type File struct {
	Path   string      `json:"path"`
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"`
}

// Present is a path on the node. Its zero value is a path where nothing is.
type Present struct {
	// Exists is true for anything at the path.
	Exists bool `json:"exists,omitempty"`
	// Kind is empty for a regular file, else what is there in words.
	Kind string `json:"kind,omitempty"`
	// Mode and SHA256 describe a regular file.
	Mode   fs.FileMode `json:"mode,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
}

// Is reports whether the file is there, with its content and mode.
func (p Present) Is(f File) bool {
	return p.Exists && p.Kind == "" && p.Mode.Perm() == f.Mode.Perm() && p.SHA256 == f.SHA256
}

// Change is a file that a roll writes or removes.
type Change struct {
	File
	// Remove means that the file of an earlier version is removed.
	Remove bool `json:"remove,omitempty"`
	// Backup is the name of the copy of what was there, below store.Backups. It is empty if nothing
	// was.
	Backup string `json:"backup,omitempty"`
	// Was describes the path before the change.
	Was Present `json:"was"`
}

// optional lists the folders whose files an installation can do without. Where the host has no such
// folder, it is not made: an uninstallation would have to guess whether it may go.
var optional = []string{
	"/usr/lib/systemd/catalog", "/usr/share/man/man5", "/usr/share/man/man8", "/usr/share/doc",
	"/usr/share/bash-completion/completions", "/usr/share/zsh/site-functions", "/usr/share/fish/vendor_completions.d",
}

// Docs is the folder of the documentation. It is made, and removed with its last file.
const Docs = "/usr/share/doc/node-partition"

// Folder returns the folder that has to exist on the host for a file, which is the one that a stage
// may write. needed reports whether an installation needs the file.
func Folder(file string) (folder string, needed bool) {
	folder = path.Dir(file)
	if folder == Docs || strings.HasPrefix(folder, Docs+"/") {
		folder = path.Dir(Docs)
	}
	return folder, !slices.Contains(optional, folder)
}

// Folders returns the folders that have to exist for files, sorted.
func Folders(files []File) []string {
	all := make([]string, 0, len(files))
	for _, f := range files {
		folder, _ := Folder(f.Path)
		all = append(all, folder)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// between returns the paths of the folders that a file needs below one that has to exist, the upper
// ones first. They are made.
func between(folder, file string) []string {
	var all []string
	for at := path.Dir(file); strings.HasPrefix(at, folder+"/"); at = path.Dir(at) {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

// Foreign is a path of ours where something else is.
type Foreign struct {
	Path, Why string
}

// Error returns the sentence about it.
func (f Foreign) Error() string { return fmt.Sprintf("%s: %s", f.Path, f.Why) }

// Plan returns the changes that make the files of a node the wanted ones, and the files that are
// ours afterwards. kept lists the files of the version that is installed by us. present returns
// what is at a path, and exists reports whether a folder is there. Anything that is neither wanted
// nor kept is foreign, and is never overwritten.
func Plan(
	wanted, kept []File,
	present func(string) Present,
	exists func(string) bool,
) (changes []Change, ours []File, foreign []Foreign) {
	ofKept := map[string]File{}
	for _, f := range kept {
		ofKept[f.Path] = f
	}
	isWanted := map[string]bool{}
	for _, f := range wanted {
		isWanted[f.Path] = true
		folder, needed := Folder(f.Path)
		if !exists(folder) {
			if needed {
				foreign = append(foreign, Foreign{f.Path, "there is no folder " + folder + " on this host"})
			}
			continue
		}
		folders := between(folder, f.Path)
		if i := slices.IndexFunc(folders, func(name string) bool {
			//guard: a file where the installer has to make a folder is found at the first write
			return !exists(name) && present(name).Exists
		}); i >= 0 {
			name := folders[i]
			if !slices.ContainsFunc(foreign, func(f Foreign) bool { return f.Path == name }) {
				foreign = append(foreign, Foreign{name, "is not a folder, and this installer needs one there; remove it, or leave the node out"})
			}
			continue
		}
		was := present(f.Path)
		old, known := ofKept[f.Path]
		switch {
		case was.Is(f):
			ours = append(ours, f)
			continue
		case was.Exists && was.Kind != "":
			foreign = append(foreign, Foreign{f.Path, "is " + was.Kind + ", which this installer has not made; remove it, or uninstall what it belongs to"})
			continue
		//guard: a file of ours that was changed since is not overwritten
		case was.Exists && known && !was.Is(old):
			foreign = append(foreign, Foreign{f.Path, "was changed after this installer wrote it; remove it, or put it back"})
			continue
		case was.Exists && !known:
			foreign = append(foreign, Foreign{f.Path, "was not written by this installer; remove it, or uninstall what it belongs to"})
			continue
		}
		ours = append(ours, f)
		changes = append(changes, Change{File: f, Was: was})
	}
	for _, f := range kept {
		if isWanted[f.Path] {
			continue
		}
		// One that was changed since is somebody's now, and stays.
		if was := present(f.Path); was.Is(f) {
			changes = append(changes, Change{File: f, Remove: true, Was: was})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(rank(a), rank(b)) })
	for i := range changes {
		if changes[i].Was.Exists {
			changes[i].Backup = fmt.Sprint(i)
		}
	}
	return changes, ours, foreign
}

// rank orders the changes: what systemd executes comes last, so that a reload of somebody else in
// between finds the old generator or the new one with all its files.
func rank(c Change) int {
	if strings.Contains(c.Path, "/system-generators/") {
		return 1
	}
	return 0
}

// Removal returns which of our files are removed at an uninstallation, and which stay because they
// were changed after we wrote them.
func Removal(kept []File, present func(string) Present) (remove []File, changed []string) {
	for _, f := range kept {
		switch was := present(f.Path); {
		case was.Is(f):
			remove = append(remove, f)
		case was.Exists:
			changed = append(changed, f.Path)
		}
	}
	return remove, changed
}
