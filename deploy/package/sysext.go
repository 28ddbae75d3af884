package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// systemdArch maps a GOARCH to systemd's name of it, which is in ARCHITECTURE= and in the names of
// images: %a of sysupdate.d(5).
var systemdArch = map[string]string{"amd64": "x86-64", "arm64": "arm64"}

const (
	// mergedUnit is the template of the service that starts the partition after a merge.
	mergedUnit = "partition-merged@.service"
	unitDir    = "/usr/lib/systemd/system/"
	// upholding is the drop-in that has an instance of it started.
	upholding = unitDir + "local-fs.target.d/50-" + name + ".conf"
	// extensionRelease has to end in the name of the extension: the name under which the image is in
	// /var/lib/extensions, without .raw.
	extensionRelease = "/usr/lib/extension-release.d/extension-release." + name
)

// upholds is the text of the drop-in for a version of the extension. local-fs.target is active when
// systemd-sysext.service merges at boot, because that is ordered after it. So the service has a job
// before sysinit.target and kubelet.service run theirs. A target that becomes active later, such as
// sysinit.target, would let the kubelet run in the same turn of systemd's loop.
const upholds = `# The version is in the name, so that systemd starts another instance after a refresh with another
# version, and none after other reloads.
[Unit]
Upholds=%s
`

// sysextVersion returns the version in the name of the image. A number of the build sorts it after
// the version alone.
func sysextVersion(r request) string {
	if r.build == "1" {
		return r.version.String()
	}
	return r.version.String() + "-" + r.build
}

// notInUnit matches what the name of a unit cannot have.
var notInUnit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// mergedInstance returns the unit that a version of the extension has started.
func mergedInstance(version string) string {
	return strings.Replace(mergedUnit, "@", "@"+notInUnit.ReplaceAllString(version, "-"), 1)
}

// writeSysext writes the installed files as a system extension (systemd-sysext(8)): a file system
// that a host lays over its /usr. Settings in /etc are the host's.
//
// ID=_any: the programs are static, and need nothing of the host but systemd. Not
// EXTENSION_RESTART_UNITS=: systemd 257 does not know it.
func writeSysext(r request, work, out string) error {
	arch, known := systemdArch[r.arch]
	if !known {
		return fmt.Errorf("systemd's name of the architecture %s is not known: add it to systemdArch", r.arch)
	}
	version := sysextVersion(r)
	tree := filepath.Join(work, "sysext")
	for _, f := range r.files {
		data, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		if err := addToTree(tree, f.path, data, f.mode); err != nil {
			return err
		}
	}
	service, err := os.ReadFile(filepath.Join(r.root, "deploy/sysext", mergedUnit))
	if err != nil {
		return err
	}
	for path, text := range map[string]string{
		unitDir + mergedUnit: string(service),
		upholding:            fmt.Sprintf(upholds, mergedInstance(version)),
		extensionRelease:     "ID=_any\nARCHITECTURE=" + arch + "\nEXTENSION_RELOAD_MANAGER=1\n",
	} {
		if err := addToTree(tree, path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return squash(r, tree, filepath.Join(out, name+"-"+version+"-"+arch+".raw"))
}

// addToTree writes a file of an extension.
func addToTree(tree, path string, data []byte, mode fs.FileMode) error {
	if !strings.HasPrefix(path, "/usr/") {
		return fmt.Errorf("%s is not below /usr: an extension cannot have it", path)
	}
	path = filepath.Join(tree, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // not what the umask leaves of it
}

// squash writes a folder as a squashfs image. mksquashfs writes the same bytes for the same files:
// it sorts them, and owner, times and attributes do not come from this machine.
func squash(r request, tree, image string) error {
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if err != nil {
		return err
	}
	seconds := strconv.FormatInt(r.time.Unix(), 10)
	// gzip is the one compression that each kernel with squashfs has.
	cmd := exec.Command("mksquashfs", tree, image, "-noappend", "-no-progress", "-comp", "gzip",
		"-all-root", "-no-xattrs", "-mkfs-time", seconds, "-all-time", seconds)
	// With it in the environment, mksquashfs refuses the two options.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "SOURCE_DATE_EPOCH=")
	})
	text, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: install Debian's squashfs-tools", err)
	case err != nil:
		return fmt.Errorf("mksquashfs: %w: %s", err, text)
	}
	fmt.Println(filepath.Base(image))
	return nil
}
