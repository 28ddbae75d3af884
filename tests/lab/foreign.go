package lab

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// installedMark is the last line of guest/install/init.
	installedMark = "lab-install: done"
	// installTimeout is for an installation beside compilers and other machines. It configures some
	// 150 packages, which takes minutes under emulation.
	installTimeout = 45 * time.Minute
	// installDisk is the size of the disk that gets the installed root as a tar. It is sparse.
	installDisk = 3 << 30
	// installRevision is raised when installForeign changes for the same inputs.
	installRevision = 1
)

// foreignArgs returns the arguments of mmdebstrap for an architecture whose programs do not run on
// this machine: it downloads the packages that it would install, the same as with minbase, and
// unpacks them.
func foreignArgs(arch string, packages []string) []string {
	return []string{
		"--mode=root", "--variant=extract", "--architectures=" + arch,
		"--include=?essential", "--include=?priority(required)",
		"--include=apt," + strings.Join(packages, ","),
		// The packages themselves are needed, too.
		"--skip=cleanup/apt/cache",
	}
}

// foreignKey is debianKey for another architecture. The installation ends with the kernel and the
// initial RAM disk of the image.
func foreignKey(f Flavour) (key, error) {
	files, err := hashTree(guest, "guest/install", "guest/initrd")
	if err != nil {
		return "", err
	}
	return keyOf(f.Arch, f.Release, debianArgs(f), debianEnv(), files, installRevision)
}

// installForeign installs Debian for another architecture, and leaves a tar of its root in a Debian
// entry, with the kernel and the initial RAM disk of an image below /tmp/lab.
//
// Packages have scripts, which run programs of the node's architecture. There are three ways:
//
//   - This machine emulates program by program (qemu-user, binfmt_misc). Its kernel has to have
//     binfmt_misc, and the lab has to be allowed to mount it and to register a program with it,
//     for all of the machine. Neither holds in each container and each virtual machine.
//   - The scripts run on this machine, and are told where the root is (mmdebstrap
//     --mode=chrootless). Debian supports that for its smallest set of packages. The script of
//     another package would change this machine, as root.
//   - The scripts run in an emulated machine. It needs what nodes need anyway, and takes minutes.
//
// This is the third. All that the machine needs is in its initial RAM disk: the unpacked packages,
// which are its programs, the packages, and the script that installs them. So its kernel needs
// neither a module nor a file system for the start, and this machine needs no program that knows
// the modules of a kernel.
func (c cache) installForeign(ctx context.Context, f Flavour, dir string, progress func(string)) error {
	qemu, err := c.qemu(ctx, f.Arch, progress)
	if err != nil {
		return err
	}
	what := debianOf(f)
	return withTemp(dir, func(temp []string) error {
		img := image{dir: filepath.Join(dir, "tmp"), qemu: qemu, arch: f.Arch}
		done := BeginStep(progress, unpackStep(f))
		unpacked := filepath.Join(img.dir, "unpacked.tar")
		args := append(debianArgs(f), f.Release, unpacked)
		if err := command(ctx, "", slices.Concat(debianEnv(), temp), "mmdebstrap", args...); err != nil {
			return fmt.Errorf("unpack %s: %w", what, err)
		}
		if err := writeInstaller(unpacked, img); err != nil {
			return fmt.Errorf("machine that installs %s: %w", what, err)
		}
		if err := os.Remove(unpacked); err != nil {
			return err
		}
		done()
		done = BeginStep(progress, debianStep(f))
		root := debianTar(dir)
		if err := errors.Join(os.WriteFile(root, nil, 0o644), os.Truncate(root, installDisk)); err != nil {
			return err
		}
		m := machine{
			Name: "lab-install", Image: img, Root: disk{root, "raw"}, Console: filepath.Join(dir, "install.log"),
			// dpkg does one thing after the other. A second CPU would only be told of each change of the
			// page tables.
			CPUs: 1, MemoryMiB: defaultMemoryMiB, Accel: softwareEmulation, NoReboot: true,
		}
		if err := runToEnd(ctx, m, installedMark, installTimeout, progress); err != nil {
			return fmt.Errorf("install %s: %w", what, err)
		}
		done()
		return nil
	})
}

// writeInstaller writes the kernel and the initial RAM disk of the machine that installs unpacked
// packages, a tar.
func writeInstaller(unpacked string, img image) (err error) {
	files, err := installerFiles()
	if err != nil {
		return err
	}
	var scripts bytes.Buffer
	if err := writeTar(&scripts, files); err != nil {
		return err
	}
	in, err := os.Open(unpacked)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := copyKernel(in, img.kernel()); err != nil {
		return err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(img.initrd())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buffered := bufio.NewWriterSize(out, 1<<20)
	archive := &cpioWriter{w: buffered}
	for _, tree := range []io.Reader{in, &scripts} {
		if err := archive.addTar(tree, notInstalled); err != nil {
			return err
		}
	}
	return errors.Join(archive.end(), buffered.Flush())
}

// installerFiles returns the files that the lab adds to the unpacked packages. The kernel makes no
// parent folders.
func installerFiles() ([]File, error) {
	first, err := guestFiles("install")
	if err != nil {
		return nil, err
	}
	initrd, err := guestFiles("initrd")
	if err != nil {
		return nil, err
	}
	for i := range initrd {
		initrd[i].Path = "/tmp/lab/initrd" + initrd[i].Path
	}
	folders := []File{
		{Path: "/tmp/lab", Mode: fs.ModeDir | 0o755},
		{Path: "/tmp/lab/initrd", Mode: fs.ModeDir | 0o755},
	}
	return mergeFiles(folders, initrd, first), nil
}

// notInstalled reports whether a file of a package is left out: devices, which the kernel makes,
// and files that dpkg does not install on a node. dpkg would leave the unpacked ones where they
// are.
func notInstalled(name string) bool {
	return slices.ContainsFunc(
		[]string{"dev/", "usr/share/doc/", "usr/share/info/", "usr/share/locale/", "usr/share/man/"},
		func(folder string) bool { return strings.HasPrefix(name, folder) },
	)
}

// copyKernel copies the kernel in a tar of a Debian root to a file. Debian's for arm64 is not
// compressed (6.12).
func copyKernel(root io.Reader, to string) error {
	r := tar.NewReader(root)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("the packages have no file /boot/vmlinuz-*")
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !strings.HasPrefix(path.Clean(h.Name), "boot/vmlinuz-") {
			continue
		}
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		return errors.Join(err, out.Close())
	}
}
