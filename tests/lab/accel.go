package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// kvmProbeTimeout is how long a guest under KVM may take to the first line of its kernel; it takes one second
// where KVM works.
const kvmProbeTimeout = 10 * time.Second

// chooseAccel returns how to run machines: software emulation, unless LAB_ACCEL=kvm asks for KVM and a guest
// really starts under it. /dev/kvm proves nothing: there are hosts where it opens and guests hang.
func chooseAccel(ctx context.Context, c Cache, img image, progress func(string)) (accel, error) {
	switch wanted := os.Getenv("LAB_ACCEL"); wanted {
	case "", "tcg":
		return softwareEmulation, nil
	case "kvm":
	default:
		return "", fmt.Errorf("LAB_ACCEL=%s: not known: use kvm or tcg", wanted)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	key, err := KeyOf("kvm works", string(boot))
	if err != nil {
		return "", err
	}
	// That it works holds until the host reboots. That it does not may be the load of this minute.
	var broken error
	_, err = c.Ensure(ctx, "kvm", "probe", key, func(ctx context.Context, dir string) error {
		broken = probeKVM(ctx, img, filepath.Join(dir, "console.log"))
		return broken
	})
	switch {
	case err == nil:
		return hardwareKVM, nil
	case broken == nil || ctx.Err() != nil:
		return "", err
	}
	progress("KVM does not work here (" + strings.ReplaceAll(broken.Error(), "\n", " ") + "): using software emulation")
	return softwareEmulation, nil
}

// probeKVM starts a guest without disks and waits for its kernel's first line.
func probeKVM(ctx context.Context, img image, console string) error {
	m := machine{
		Name: "lab-kvm-probe", Image: img, Root: disk{img.root(), "raw"}, Console: console, MemoryMiB: 256, CPUs: 1,
		Accel: hardwareKVM, KernelArgs: []string{"loglevel=7"}, NoReboot: true, Snapshot: true,
	}
	q, err := startQemu(ctx, m, tiedToThisProcess)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, kvmProbeTimeout, errors.New("deadline"))
	defer cancel()
	watchCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-q.exited:
			stop(q.err())
		case <-watchCtx.Done():
		}
	}()
	err = waitFor(watchCtx, "a guest's kernel", 50*time.Millisecond, func(context.Context) (bool, string, error) {
		log, err := os.ReadFile(console)
		return strings.Contains(string(log), "Linux version"), "", err
	})
	return errors.Join(err, q.kill())
}
