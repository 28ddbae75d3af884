package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// image is a prepared flavour, from which nodes boot. All of it is read-only; nodes write to
// overlays.
type image struct {
	dir string
	// qemu is the program that boots it.
	qemu string
	// cpu holds the kernel's special needs of the processor's model.
	cpu string
	// arch is its architecture, unless it is this machine's.
	arch string
	// selinux means that its kernel has SELinux.
	selinux bool
}

func (i image) kernel() string { return filepath.Join(i.dir, "kernel") }
func (i image) initrd() string { return filepath.Join(i.dir, "initrd.img") }
func (i image) root() string   { return filepath.Join(i.dir, "root.raw") }

// latevar is a file system with a copy of the root's /var.
func (i image) latevar() string { return filepath.Join(i.dir, "var.raw") }

const (
	// rootSize and varSize are sparse: a node's disks take only the space it writes.
	rootSize = "6G"
	varSize  = "3G"
	// bakeTimeout is for a boot beside compilers and another image. Alone it takes half a minute to a
	// minute on two cores.
	bakeTimeout = 15 * time.Minute
)

// image returns the image of a flavour, and makes it first if there is none. makeAll has made its
// parts.
func (c cache) image(ctx context.Context, f Flavour, progress func(string)) (image, error) {
	qemu, err := c.qemu(ctx, f.Arch, progress)
	if err != nil {
		return image{}, err
	}
	debian, err := c.debian(ctx, f, progress)
	if err != nil {
		return image{}, err
	}
	programs := f.allPrograms()
	binaries := make([]string, len(programs))
	for i, p := range programs {
		if binaries[i], err = c.build(ctx, p, progress); err != nil {
			return image{}, err
		}
	}
	key, err := imageKey(f, debian, binaries)
	if err != nil {
		return image{}, err
	}
	dir, err := c.ensure(ctx, "images", f.Name, key, func(ctx context.Context, dir string) error {
		return c.assemble(ctx, f, debian, binaries, image{dir, qemu, f.CPU, f.Arch, f.SELinux}, progress)
	})
	if err != nil {
		return image{}, err
	}
	return image{dir, qemu, f.CPU, f.Arch, f.SELinux}, nil
}

// allPrograms returns the programs that are built for a flavour. The first podPrograms of them are
// for container images.
func (f Flavour) allPrograms() []Program {
	all := append([]Program{pause(), podtool()}, f.Programs...)
	for i := range all {
		all[i].Arch = f.Arch
	}
	return all
}

const podPrograms = 2

// imageKey returns the key of an image. The names of its inputs hold their own keys.
func imageKey(f Flavour, debian string, binaries []string) (key, error) {
	roots := make([]string, 0, 2+len(f.Overlays))
	roots = append(roots, "guest/initrd", "guest/common")
	for _, overlay := range f.Overlays {
		roots = append(roots, "guest/"+overlay)
	}
	hashes, err := hashTree(guest, roots...)
	if err != nil {
		return "", err
	}
	return keyOf(
		f,
		debian,
		binaries,
		hashes,
		maskedUnits(),
		maskedGenerators(),
		busyboxCommands(),
		rootSize,
		varSize,
		imageRevision,
	)
}

// imageRevision is raised when assemble changes for the same inputs.
const imageRevision = 3

// debianArgs and debianEnv return the arguments and the environment of mmdebstrap.
func debianArgs(f Flavour) []string {
	packages := append(basePackages(f.Arch), f.Packages...)
	slices.Sort(packages)
	if f.Arch != "" {
		return append(foreignArgs(f.Arch, packages), releaseArgs(f.Release)...)
	}
	return slices.Concat([]string{
		"--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ","),
		// After a loss of power the build starts again, so dpkg need not write each file through to the
		// disk.
		"--dpkgopt=force-unsafe-io",
		// No program reads these in a node, and they are a third of its files. It is no --dpkgopt: with
		// that mmdebstrap sends the packages that it unpacks by itself through a filter in Python.
		`--essential-hook=printf 'path-exclude=/usr/share/%s/*\n' doc info locale man >"$1/etc/dpkg/dpkg.cfg.d/lab"`,
	}, releaseArgs(f.Release))
}

// releaseArgs returns the arguments of mmdebstrap that depend on the release. Debian signs the
// package lists of testing for a week, and a mirror may be behind: apt accepts expired lists.
func releaseArgs(release string) []string {
	if release != testingRelease {
		return nil
	}
	return []string{`--aptopt=Acquire::Check-Valid-Until "false"`}
}

// testingRelease is the code name of the Debian that is no release yet.
const testingRelease = "forky"

// The lab has its own initial RAM disk. Building Debian's would take longer than all the rest.
func debianEnv() []string { return []string{"INITRD=No"} }

func debianKey(f Flavour) (key, error) {
	if f.Arch != "" {
		return foreignKey(f)
	}
	return keyOf(f.Release, debianArgs(f), debianEnv())
}

// debianTar returns the path of the tar in a Debian entry.
func debianTar(entry string) string { return filepath.Join(entry, "root.tar") }

// debian returns a tar of a Debian root with the flavour's packages.
func (c cache) debian(ctx context.Context, f Flavour, progress func(string)) (string, error) {
	key, err := debianKey(f)
	if err != nil {
		return "", err
	}
	dir, err := c.ensure(ctx, "debian", withArch(f.Release, f.Arch), key, func(ctx context.Context, dir string) error {
		if f.Arch != "" {
			return c.installForeign(ctx, f, dir, progress)
		}
		done := BeginStep(progress, debianStep(f))
		args := append(debianArgs(f), f.Release, debianTar(dir))
		err := withTemp(dir, func(temp []string) error {
			return command(ctx, "", slices.Concat(debianEnv(), temp), "mmdebstrap", args...)
		})
		if err != nil {
			return fmt.Errorf("install Debian %s: %w", f.Release, err)
		}
		done()
		return nil
	})
	return debianTar(dir), err
}

// assemble makes the disk of a flavour: it unpacks Debian, lays the lab's files over it, turns the
// tree into a file system and boots that once.
func (c cache) assemble(
	ctx context.Context,
	f Flavour,
	debian string,
	binaries []string,
	img image,
	progress func(string),
) (err error) {
	done := BeginStep(progress, diskStep)
	tree := filepath.Join(img.dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := command(
		ctx, "", nil,
		"tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpf", debian, "-C", tree,
	); err != nil {
		return fmt.Errorf("unpack Debian: %w", err)
	}
	files, err := imageFiles(f, binaries[podPrograms:])
	if err != nil {
		return err
	}
	if err := unpack(ctx, tree, files); err != nil {
		return err
	}
	if f.Arch == "" { // else it is there, see installForeign
		if err := command(ctx, "", nil, "chroot", tree, "/bin/sh", "/tmp/lab/initrd/build.sh"); err != nil {
			return fmt.Errorf("initial RAM disk: %w", err)
		}
	}
	for name, target := range map[string]string{"kernel": img.kernel(), "initrd.img": img.initrd()} {
		if err := os.Rename(filepath.Join(tree, "tmp/lab", name), target); err != nil {
			return fmt.Errorf("initial RAM disk: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(tree, "tmp/lab")); err != nil {
		return err
	}
	// A try of KVM waits for seconds where KVM does not work. It needs the kernel, and no disk.
	var a accel
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		a, err = chooseAccel(groupCtx, c, img, progress)
		return err
	})
	group.Go(func() error { return makeRoot(groupCtx, f, tree, binaries, img) })
	if err := group.Wait(); err != nil {
		return err
	}
	done()

	done = BeginStep(progress, importStep)
	if err := bake(ctx, img, a, progress); err != nil {
		return fmt.Errorf("first boot: %w", err)
	}
	done()

	done = BeginStep(progress, varStep)
	if err := copyVar(ctx, img); err != nil {
		return fmt.Errorf("disk for a late /var: %w", err)
	}
	done()
	return nil
}

// makeRoot adds the archives of the container images to the tree of a root and turns it into a file
// system.
func makeRoot(ctx context.Context, f Flavour, tree string, binaries []string, img image) error {
	if err := writeImages(filepath.Join(tree, "var/lib/lab/images"), imagePrograms{
		pause:   filepath.Join(binaries[0], "pause"),
		podtool: filepath.Join(binaries[1], "podtool"),
		busybox: filepath.Join(tree, "bin/busybox"),
		arch:    f.Arch,
	}); err != nil {
		return err
	}
	if f.SELinux {
		if err := label(ctx, tree); err != nil {
			return err
		}
	}
	if err := makeFileSystem(ctx, tree, img.root(), "lab-root", rootSize); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// imageFiles returns the files that the lab lays over Debian.
func imageFiles(f Flavour, programs []string) ([]File, error) {
	common, err := guestFiles("common")
	if err != nil {
		return nil, err
	}
	var overlays []File
	for _, folder := range f.Overlays {
		overlay, err := guestFiles(folder)
		if err != nil {
			return nil, err
		}
		overlays = append(overlays, overlay...)
	}
	initrd, err := guestFiles("initrd")
	if err != nil {
		return nil, err
	}
	for i := range initrd {
		initrd[i].Path = "/tmp/lab/initrd" + initrd[i].Path
	}
	var more []File
	for _, dir := range programs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			more = append(more, File{Path: "/usr/bin/" + e.Name(), Source: filepath.Join(dir, e.Name()), Mode: 0o755})
		}
	}
	for _, unit := range maskedUnits() {
		more = append(more, File{Path: "/etc/systemd/system/" + unit, Link: "/dev/null"})
	}
	for _, generator := range maskedGenerators() {
		more = append(
			more,
			File{Path: "/etc/systemd/system-generators/systemd-" + generator + "-generator", Link: "/dev/null"},
		)
	}
	units := append([]string{
		"/etc/systemd/system/kubelet.service", "/etc/systemd/system/lab-bake.service",
		"/lib/systemd/system/systemd-networkd.service",
	}, f.Units...)
	for _, unit := range units {
		more = append(more, File{Path: "/etc/systemd/system/multi-user.target.wants/" + path.Base(unit), Link: unit})
	}
	more = append(more,
		File{Path: "/etc/fstab", Data: []byte("# The kernel mounts / as its command line says.\n")},
		File{Path: "/opt/cni/bin", Link: "/usr/lib/cni"},
		File{Path: "/etc/kubernetes/manifests", Mode: fs.ModeDir | 0o755},
		File{Path: "/etc/resolv.conf", Data: []byte("nameserver 10.0.2.3\n")},
	)
	return mergeFiles(common, overlays, initrd, more), nil
}

// unpack lays files over a tree.
func unpack(ctx context.Context, tree string, files []File) error {
	seed := tree + ".tar"
	if err := writeTarPath(seed, files); err != nil {
		return fmt.Errorf("files of the lab: %w", err)
	}
	if err := command(
		ctx, "", nil,
		"tar", "--numeric-owner", "--keep-directory-symlink", "-xpf", seed, "-C", tree,
	); err != nil {
		return fmt.Errorf("files of the lab: %w", err)
	}
	return os.Remove(seed)
}

// makeFileSystem turns a tree into an ext4 file system in a sparse file, without mounting anything.
// It writes all tables, so that no node's kernel does so in the background.
func makeFileSystem(ctx context.Context, tree, disk, label, size string) error {
	args := []string{
		"-q", "-t", "ext4", "-L", label, "-m", "0", "-J", "size=16", "-i", "32768",
		"-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", tree, disk, size,
	}
	if err := command(ctx, "", nil, "mke2fs", args...); err != nil {
		return fmt.Errorf("file system %s: %w", label, err)
	}
	return nil
}

// bakedMark is the last line of guest/common/usr/lib/lab/bake.sh.
const bakedMark = "lab-bake: done"

// bake boots the image once, without the kubelet: its checkpoints would bind every node to the
// policies of its first configuration.
func bake(ctx context.Context, img image, accel accel, progress func(string)) error {
	seed := filepath.Join(img.dir, "seed.tar")
	id, err := machineID()
	if err != nil {
		return err
	}
	err = writeTarPath(seed, []File{
		{Path: "/etc/machine-id", Data: []byte(id)},
		// The journal of this boot must not be part of any node.
		{Path: "/etc/systemd/journald.conf.d/zz-bake.conf", Data: []byte("[Journal]\nStorage=volatile\n")},
	})
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	m := machine{
		Name: "lab-bake", Image: img, Root: disk{img.root(), "raw"}, Seed: seed, Console: filepath.Join(img.dir, "bake.log"),
		CPUs: 2, MemoryMiB: 2048, Accel: accel,
		KernelArgs: []string{"lab.bake", "systemd.mask=kubelet.service", permissive}, NoReboot: true,
	}
	if err := runToEnd(ctx, m, bakedMark, bakeTimeout, progress); err != nil {
		return err
	}
	return os.Remove(seed)
}

// runToEnd runs a machine until it has printed mark and has ended. It runs it again if the guest's
// kernel panics under emulation.
func runToEnd(ctx context.Context, m machine, mark string, limit time.Duration, progress func(string)) error {
	for panics := 0; ; {
		before := fileSize(m.Console)
		err := runOnce(ctx, m, mark, limit)
		if err == nil || m.Accel != softwareEmulation || !panicked(m.Console, before) {
			return err
		}
		if panics++; panics == maxPanics {
			return err
		}
		progress("the guest's kernel panicked, as it does now and then under software emulation: booting again")
	}
}

// runOnce runs a machine until it has printed mark and has ended.
func runOnce(ctx context.Context, m machine, mark string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not over after %s", limit))
	defer cancel()
	q, err := startQemu(ctx, m, tiedToThisProcess)
	if err != nil {
		return err
	}
	select {
	case <-q.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%w: the console's end:\n%s", context.Cause(ctx), tailFile(m.Console, 20)), q.kill())
	}
	log, err := os.ReadFile(m.Console)
	if err != nil || !bytes.Contains(log, []byte(mark)) {
		return errors.Join(
			err,
			fmt.Errorf(
				"the machine stopped without %q: %w: the console's end:\n%s",
				mark, q.err(), tailFile(m.Console, 20),
			),
		)
	}
	return nil
}

// copyVar makes the disk of a late /var from the baked root, without mounting it.
func copyVar(ctx context.Context, img image) error {
	dir := filepath.Join(img.dir, "var")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := command(ctx, img.dir, nil, "debugfs", "-R", "rdump /var var", img.root()); err != nil {
		return err
	}
	if err := makeFileSystem(ctx, filepath.Join(dir, "var"), img.latevar(), "lab-var", varSize); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func writeTarPath(path string, files []File) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(f, files), f.Close())
}

func machineID() (string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(id[:]) + "\n", nil
}

func tailFile(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(strings.ReplaceAll(string(data), "\r", ""), lines)
}
