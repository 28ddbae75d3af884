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

// kvmProbeTimeout bounds the start of a guest's first process under KVM. It takes a second or two
// where KVM works.
const kvmProbeTimeout = 5 * time.Second

// kvmDevice is the kernel's device for KVM.
const kvmDevice = "/dev/kvm"

// chooseAccel returns the accelerator for machines. It follows LAB_ACCEL. If that is empty or
// "auto", it chooses KVM if a guest starts under it, and emulation otherwise. Machines of another
// architecture than the host's are emulated.
func chooseAccel(ctx context.Context, c cache, img image, progress func(string)) (accel, error) {
	return chooseAccelOn(ctx, kvmDevice, c, img, progress)
}

func chooseAccelOn(ctx context.Context, device string, c cache, img image, progress func(string)) (accel, error) {
	wanted := os.Getenv("LAB_ACCEL")
	switch wanted {
	case "tcg":
		return softwareEmulation, nil
	case "", "auto", "kvm":
	default:
		return "", fmt.Errorf("LAB_ACCEL=%s: not known: use auto, kvm or tcg", wanted)
	}
	if img.arch != "" {
		// KVM runs guests of the host's architecture alone.
		if wanted == "kvm" {
			return "", fmt.Errorf("LAB_ACCEL=kvm: a node of %s is emulated here: use LAB_ACCEL=auto or tcg", img.arch)
		}
		return softwareEmulation, nil
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

// kvmAnswer is the file of a probe's entry with the reason why KVM does not work. It is empty if
// KVM works.
const kvmAnswer = "why-not"

// whyNoKVM returns the reason why guests do not start under KVM, or an empty string if they do. The
// device proves nothing: on some hosts it opens and guests hang. So whyNoKVM starts a guest, and
// keeps the result, yes or no, until this machine boots again or the lab has another qemu.
func (c cache) whyNoKVM(ctx context.Context, device string, img image, progress func(string)) (string, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is the answer
	}
	f.Close()
	key, err := kvmKey(img)
	if err != nil {
		return "", err
	}
	dir, err := c.ensure(ctx, "kvm", "probe", key, func(ctx context.Context, dir string) error {
		done := BeginStep(progress, "trying KVM")
		why := ""
		if err := probeKVM(ctx, img, dir); err != nil {
			why = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		done()
		if why != "" {
			progress(
				"KVM does not work here: " + why + ": nodes are emulated; to try it again remove " + c.path("kvm", "probe", key),
			)
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

// kvmKey covers the inputs of a probe: this boot of this machine, and this qemu.
func kvmKey(img image) (key, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return keyOf("why KVM does not work", string(boot), img.qemu)
}

// probeStarted is the message of a guest's kernel that has started all CPUs and devices, and has a
// first process.
const probeStarted = "Run /init as init process"

// probeDisk is the size of the probe's disk in bytes.
const probeDisk = 1 << 20

// probeKVM starts a guest and waits until its kernel starts the first process. The guest has an
// empty disk in dir, because the image's may not be made yet.
func probeKVM(ctx context.Context, img image, dir string) error {
	root, console := filepath.Join(dir, "root.raw"), filepath.Join(dir, "console.log")
	if err := os.WriteFile(root, make([]byte, probeDisk), 0o644); err != nil {
		return err
	}
	m := machine{
		Name: "lab-kvm-probe", Image: img, Root: disk{root, "raw"}, Console: console, MemoryMiB: 512, CPUs: 2,
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
