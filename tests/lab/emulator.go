package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// qemuRelease is the Debian release of every machine's qemu, whatever the host runs, so that
// measurements of two hosts can be compared. 10.0 takes half of the time of Debian 12's 7.2 for the
// same work of a guest, and Debian 14's 11.1 a seventh less than that (README.md).
const qemuRelease = testingRelease

// qemuWrapper starts the unpacked qemu for an architecture with the libraries it was built for,
// which the host need not have. It has the name of qemu's program.
func qemuWrapper(arch string) string {
	return strings.ReplaceAll(x86Wrapper, platformOf("").qemu, platformOf(arch).qemu)
}

// x86Wrapper is the wrapper for this machine's architecture. Only that has firmware of seabios.
const x86Wrapper = `#!/bin/sh
usr=${0%/*}/root/usr
exec "$usr/lib64/ld-linux-x86-64.so.2" --argv0 qemu-system-x86_64 --library-path "$usr/lib/x86_64-linux-gnu" \
	"$usr/bin/qemu-system-x86_64" -L "$usr/share/qemu" -L "$usr/share/seabios" "$@"
`

// qemuArgs returns the arguments of mmdebstrap: it unpacks the package for machines of an
// architecture and its dependencies, and does not install them.
func qemuArgs(arch string) []string {
	return append(
		[]string{"--mode=root", "--variant=extract", "--include=" + platformOf(arch).pkg},
		releaseArgs(qemuRelease)...,
	)
}

func qemuKey(arch string) (key, error) { return keyOf(qemuArgs(arch), qemuWrapper(arch)) }

// qemu returns the path of the program that runs machines of an architecture.
func (c cache) qemu(ctx context.Context, arch string, progress func(string)) (string, error) {
	key, err := qemuKey(arch)
	if err != nil {
		return "", err
	}
	name := platformOf(arch).qemu
	dir, err := c.ensure(ctx, "qemu", withArch(qemuRelease, arch), key, func(ctx context.Context, dir string) error {
		done := BeginStep(progress, qemuStep(arch))
		err := withTemp(dir, func(temp []string) error {
			return command(ctx, "", temp, "mmdebstrap", append(qemuArgs(arch), qemuRelease, filepath.Join(dir, "root"))...)
		})
		if err != nil {
			return fmt.Errorf("unpack qemu of Debian %s: %w", qemuRelease, err)
		}
		program := filepath.Join(dir, name)
		if err := os.WriteFile(program, []byte(qemuWrapper(arch)), 0o755); err != nil {
			return err
		}
		if err := command(ctx, dir, nil, program, "--version"); err != nil {
			return fmt.Errorf("qemu of Debian %s does not start here: %w", qemuRelease, err)
		}
		done()
		return nil
	})
	return filepath.Join(dir, name), err
}
