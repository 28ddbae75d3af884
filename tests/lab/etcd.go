package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// etcdPackage is Debian's package. The lab only unpacks its program: an installed package would
// start a service here.
const etcdPackage = "etcd-server"

// etcd returns the path of Debian's etcd of this machine's release.
func (c cache) etcd(ctx context.Context, progress func(string)) (string, error) {
	release, err := debianRelease()
	if err != nil {
		return "", err
	}
	key, err := keyOf(etcdPackage, release)
	if err != nil {
		return "", err
	}
	dir, err := c.ensure(ctx, "etcd", release, key, func(ctx context.Context, dir string) error {
		done := BeginStep(progress, "unpacking etcd")
		err := withTemp(dir, func([]string) error { return unpackPackage(ctx, etcdPackage, filepath.Join(dir, "tmp"), dir) })
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		done()
		return nil
	})
	return filepath.Join(dir, "usr/bin/etcd"), err
}

// unpackPackage downloads a Debian package and unpacks its files, without installing it.
func unpackPackage(ctx context.Context, name, tmp, dir string) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("not a Debian machine: the package %s cannot be unpacked: %w", name, err)
		}
	}
	if err := command(ctx, tmp, nil, "apt-get", "-q", "download", name); err != nil {
		// The lists may be missing, or name a version that is gone.
		if updateErr := hostCommand(ctx, nil, "apt-get", "-q", "update"); updateErr != nil {
			return errors.Join(err, updateErr)
		}
		if err := command(ctx, tmp, nil, "apt-get", "-q", "download", name); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("apt-get download %s: %d files, want 1: %w", name, len(packages), err)
	}
	return command(ctx, tmp, nil, "dpkg-deb", "-x", packages[0], dir)
}

// debianRelease returns the code name of this machine's Debian.
func debianRelease() (string, error) {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("which Debian this machine is: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return name, nil
		}
	}
	return "", errors.New("which Debian this machine is: no VERSION_CODENAME in /etc/os-release: run the lab on Debian")
}
