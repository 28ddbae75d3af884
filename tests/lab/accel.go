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

// kvmProbeTimeout is how long a guest under KVM may take to start its first process; it takes a second or two where KVM works.
const kvmProbeTimeout = 5 * time.Second

// kvmDevice is where the kernel serves KVM.
const kvmDevice = "/dev/kvm"

// chooseAccel returns how to run machines: as LAB_ACCEL says, and under KVM where a guest starts under it when it says
// nothing, or "auto".
func chooseAccel(ctx context.Context, c Cache, img image, progress func(string)) (accel, error) {
	return chooseAccelOn(ctx, kvmDevice, c, img, progress)
}

func chooseAccelOn(ctx context.Context, device string, c Cache, img image, progress func(string)) (accel, error) {
	wanted := os.Getenv("LAB_ACCEL")
	switch wanted {
	case "tcg":
		return softwareEmulation, nil
	case "", "auto", "kvm":
	default:
		return "", fmt.Errorf("LAB_ACCEL=%s: not known: use auto, kvm or tcg", wanted)
	}
	why, err := c.whyNoKVM(ctx, device, img, progress)
	switch {
	case err != nil:
		return "", err
	case why == "":
		return hardwareKVM, nil
	case wanted == "kvm":
		return "", fmt.Errorf("LAB_ACCEL=kvm: KVM does not work here: %s: use LAB_ACCEL=auto or tcg", why)
	}
	return softwareEmulation, nil
}

// kvmAnswer is the file of a probe's entry that says why KVM does not work, and is empty where it does.
const kvmAnswer = "why-not"

// whyNoKVM returns why guests do not start under KVM, or nothing when they do. The device proves nothing: there are hosts
// where it opens and guests hang. So a guest is started, once until this machine boots again or the lab has another qemu,
// and what comes of it is kept, yes or no.
func (c Cache) whyNoKVM(ctx context.Context, device string, img image, progress func(string)) (string, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is the answer
	}
	f.Close()
	key, err := kvmKey(img)
	if err != nil {
		return "", err
	}
	dir, err := c.Ensure(ctx, "kvm", "probe", key, func(ctx context.Context, dir string) error {
		done := step(progress, "trying KVM")
		why := ""
		if err := probeKVM(ctx, img, filepath.Join(dir, "console.log")); err != nil {
			why = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		done()
		if why != "" {
			progress("KVM does not work here: " + why + ": nodes are emulated; to try it again remove " + c.Path("kvm", "probe", key))
		}
		return os.WriteFile(filepath.Join(dir, kvmAnswer), []byte(why), 0o644)
	})
	if err != nil {
		return "", err
	}
	why, err := os.ReadFile(filepath.Join(dir, kvmAnswer))
	if err != nil {
		return "", fmt.Errorf("whether KVM works: %w: remove %s", err, dir)
	}
	return string(why), nil
}

// kvmKey: what holds for this boot of this machine and this qemu.
func kvmKey(img image) (Key, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return KeyOf("why KVM does not work", string(boot), img.qemu)
}

// probeStarted is what a guest's kernel says when it has started all CPUs and devices, and has a first process.
const probeStarted = "Run /init as init process"

// probeKVM starts a guest that writes to no disk, and waits until its kernel starts the first process.
func probeKVM(ctx context.Context, img image, console string) error {
	m := machine{
		Name: "lab-kvm-probe", Image: img, Root: disk{img.root(), "raw"}, Console: console, MemoryMiB: 512, CPUs: 2,
		Accel: hardwareKVM, KernelArgs: []string{"loglevel=7"}, NoReboot: true, Snapshot: true,
	}
	q, err := startQemu(ctx, m, tiedToThisProcess)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, kvmProbeTimeout, fmt.Errorf("it has not started in %s", kvmProbeTimeout))
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
	err = waitFor(watchCtx, "a guest", 50*time.Millisecond, func(context.Context) (bool, string, error) {
		log, err := os.ReadFile(console)
		return strings.Contains(string(log), probeStarted), lastLines(string(log), 1), err
	})
	return errors.Join(err, q.kill())
}
