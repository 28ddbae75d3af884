package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Fake qemus, by the result of a guest under KVM.
const (
	startingGuest = `for a; do case $a in *path=*) echo "[    0.9] Run /init as init process" >"${a##*path=}";; esac; done; exec sleep 1000`
	silentGuest   = `for a; do case $a in *path=*) echo "Booting from ROM.." >"${a##*path=}";; esac; done; exec sleep 1000`
	noGuest       = "echo no kvm >&2; exit 1"
)

// accelHost is a machine with a KVM device, a cache and the lab's progress messages.
type accelHost struct {
	device string
	cache  cache
	told   []string
}

func newAccelHost(t *testing.T, wanted string) *accelHost {
	t.Helper()
	t.Setenv("LAB_ACCEL", wanted)
	h := &accelHost{device: filepath.Join(t.TempDir(), "kvm"), cache: cache{Dir: t.TempDir()}}
	if err := os.WriteFile(h.device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *accelHost) choose(t *testing.T, img image) (accel, error) {
	t.Helper()
	return chooseAccelOn(t.Context(), h.device, h.cache, img, func(line string) { h.told = append(h.told, line) })
}

// otherwise replaces the script of the same qemu.
func otherwise(t *testing.T, img image, text string) {
	t.Helper()
	writeScript(t, img.qemu, text)
}

func TestAccelIsAskedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		script, then string
		want         accel
	}{
		"yes": {startingGuest, noGuest, hardwareKVM},
		"no":  {noGuest, startingGuest, softwareEmulation},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAccelHost(t, "")
			img := fakeQemu(t, tc.script)
			if got, err := h.choose(t, img); err != nil || got != tc.want {
				t.Fatalf("%s, %v", got, err)
			}
			said := strings.Join(h.told, "\n")
			if no := tc.want == softwareEmulation; strings.Contains(said, "KVM does not work here") != no || strings.Contains(said, "no kvm") != no {
				t.Errorf("told %q", said)
			}
			h.told = nil
			otherwise(t, img, tc.then)
			if got, err := h.choose(t, img); err != nil || got != tc.want {
				t.Errorf("the second time %s, %v", got, err)
			}
			if len(h.told) > 0 {
				t.Errorf("the second time told %q", h.told)
			}
			// Another qemu may behave differently.
			if got, err := h.choose(t, fakeQemu(t, tc.then)); err != nil || got == tc.want {
				t.Errorf("with another qemu %s, %v", got, err)
			}
		})
	}
}

func TestAccelOfSilentGuest(t *testing.T) {
	h := newAccelHost(t, "auto")
	began := time.Now()
	got, err := h.choose(t, fakeQemu(t, silentGuest))
	if err != nil || got != softwareEmulation {
		t.Errorf("%s, %v", got, err)
	}
	if took := time.Since(began); took < kvmProbeTimeout {
		t.Errorf("given up after %s", took)
	}
	if said := strings.Join(h.told, "\n"); !strings.Contains(said, "has not started in 5s") || !strings.Contains(said, "Booting from ROM..") {
		t.Errorf("told %q", said)
	}
}

func TestAccelWanted(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, script, fail string
		want                 accel
		noDevice             bool
	}{
		"tcg":                {wanted: "tcg", script: startingGuest, want: softwareEmulation},
		"kvm":                {wanted: "kvm", script: startingGuest, want: hardwareKVM},
		"kvm that is broken": {wanted: "kvm", script: noGuest, fail: "KVM does not work here: a guest"},
		"kvm that is absent": {wanted: "kvm", script: startingGuest, noDevice: true, fail: "no such file"},
		"auto without KVM":   {wanted: "auto", script: startingGuest, noDevice: true, want: softwareEmulation},
		"unknown":            {wanted: "xen", script: startingGuest, fail: "LAB_ACCEL=xen: not known"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAccelHost(t, tc.wanted)
			if tc.noDevice {
				h.device += "-absent"
			}
			got, err := h.choose(t, fakeQemu(t, tc.script))
			switch {
			case tc.fail == "" && (err != nil || got != tc.want):
				t.Errorf("%s, %v", got, err)
			case tc.fail != "" && (err == nil || !strings.Contains(err.Error(), tc.fail)):
				t.Errorf("error %v, want %q", err, tc.fail)
			}
		})
	}
}
