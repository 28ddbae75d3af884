package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// qemuRelease is the Debian release of every machine's qemu, whatever the host runs, so that
// measurements of two hosts can be compared. 10.0 takes half of the time of Debian 12's 7.2 for the
// same work of a guest, and Debian 14's 11.1 a seventh less than that (docs/performance.md).
const qemuRelease = testingRelease

// qemuProgram is the program file of an entry, with qemuWrapper in it.
const qemuProgram = "qemu-system-x86_64"

// qemuWrapper starts the unpacked qemu with the libraries it was built for, which the host need not
// have.
const qemuWrapper = `#!/bin/sh
usr=${0%/*}/root/usr
exec "$usr/lib64/ld-linux-x86-64.so.2" --argv0 qemu-system-x86_64 --library-path "$usr/lib/x86_64-linux-gnu" \
	"$usr/bin/qemu-system-x86_64" -L "$usr/share/qemu" -L "$usr/share/seabios" "$@"
`

// qemuArgs returns the arguments of mmdebstrap: it unpacks the package and its dependencies, and
// does not install them.
func qemuArgs() []string {
	return append([]string{"--mode=root", "--variant=extract", "--include=qemu-system-x86"}, releaseArgs(qemuRelease)...)
}

func qemuKey() (key, error) { return keyOf(qemuArgs(), qemuWrapper) }

// qemu returns the path of the program that runs machines.
func (c cache) qemu(ctx context.Context, progress func(string)) (string, error) {
	key, err := qemuKey()
	if err != nil {
		return "", err
	}
	dir, err := c.ensure(ctx, "qemu", qemuRelease, key, func(ctx context.Context, dir string) error {
		done := BeginStep(progress, qemuStep)
		err := withTemp(dir, func(temp []string) error {
			return command(ctx, "", temp, "mmdebstrap", append(qemuArgs(), qemuRelease, filepath.Join(dir, "root"))...)
		})
		if err != nil {
			return fmt.Errorf("unpack qemu of Debian %s: %w", qemuRelease, err)
		}
		program := filepath.Join(dir, qemuProgram)
		if err := os.WriteFile(program, []byte(qemuWrapper), 0o755); err != nil {
			return err
		}
		if err := command(ctx, dir, nil, program, "--version"); err != nil {
			return fmt.Errorf("qemu of Debian %s does not start here: %w", qemuRelease, err)
		}
		done()
		return nil
	})
	return filepath.Join(dir, qemuProgram), err
}
