package samples

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRingRestartLoop: a service that is restarted each second for an hour costs an hour of the
// history, and not all of it.
func TestRingRestartLoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 0, 60, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for second := range 3600 {
		r := open(t, dir)
		s := minute(60, 200)
		s.Time, s.Seconds = s.Time.Add(time.Duration(second)*time.Second), 1
		s.Partition.PeakTime = s.Time
		if second == 1800 {
			s.Partition.Evicted = []string{"kube-system/a"}
		}
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h := read(t, dir)
	if len(h.Minutes) > 121 || len(h.Tens) > 13 || h.Broken > 0 {
		t.Errorf("%d minutes and %d samples of ten minutes in two hours, %d broken", len(h.Minutes), len(h.Tens), h.Broken)
	}
	for name, list := range map[string][]Sample{"minutes": h.Minutes, "tens": h.Tens} {
		seconds, evicted := uint32(0), 0
		for _, s := range list {
			seconds += s.Seconds
			evicted += len(s.Partition.Evicted)
		}
		if seconds != 7200 || evicted != 1 {
			t.Errorf("%s: %d s, %d evictions; want two hours and one", name, seconds, evicted)
		}
	}
}

// TestRingRestartAfterRemoval: a folder that is removed between the start and the first sample is
// made again, without a hole in the place of the sample that was to be continued.
func TestRingRestartAfterRemoval(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "history")
	r := open(t, dir)
	add(t, r, 0, 5, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	add(t, r, 5, 8, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if h := read(t, dir); len(h.Minutes) != 3 || len(h.Tens) != 1 || h.Broken != 0 || h.Tens[0].Seconds != 8*60 {
		t.Errorf("%+v", h)
	}
}

// TestRingStrangeFiles: what is no file does not hold up the start, nor the history.
func TestRingStrangeFiles(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(path string) error{
		"pipe":         func(path string) error { return unix.Mkfifo(path, 0o600) },
		"symlink":      func(path string) error { return os.Symlink("/etc/hostname", path) },
		"endless file": func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder":       func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		if err := place(filepath.Join(dir, minutes.file(1))); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		notices := 0
		go func() {
			r, err := Open(dir, func(error) { notices++ })
			if err == nil {
				err = r.Add(minute(1, 100))
			}
			if err == nil {
				err = r.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if h, readErr := Read(t.Context(), dir); err != nil || notices != 1 || readErr != nil || len(h.Minutes) != 1 {
				t.Errorf("%s: %v, %d notices, %d minutes, %v", name, err, notices, len(h.Minutes), readErr)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the start waits", name)
		}
	}
}

// TestGroupsAreBounded: of too many cgroups the services of the kubelet and of the runtime stay,
// and those with the most memory. Older versions of systemd have cgroups of mounts at the top.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	s := minute(0, 100)
	s.Groups = nil
	for n := range 2 * maxGroups {
		s.Groups = append(s.Groups, Group{Name: fmt.Sprintf("dev-%d.mount", n)})
	}
	s.Groups = append(s.Groups, Group{Name: "system.slice", WorkingSetBytes: 500 << 20},
		Group{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 120 << 20},
		Group{Name: "system.slice/containerd.service", Kube: true, WorkingSetBytes: 180 << 20})
	s.bound()
	kept := map[string]bool{}
	for _, g := range s.Groups {
		kept[g.Name] = true
	}
	if len(kept) != maxGroups || !kept["system.slice"] || !kept["system.slice/kubelet.service"] || !kept["system.slice/containerd.service"] {
		t.Errorf("%v", kept)
	}
}
