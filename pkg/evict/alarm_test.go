package evict

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup returns a folder with files.
func cgroup(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAlarm(t *testing.T) {
	dir := cgroup(t, "memory.events.local")
	a, err := newAlarm(dir)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(ctx context.Context, d time.Duration) (time.Duration, bool, error) {
		begin := time.Now()
		events, err := a.Wait(ctx, d)
		return time.Since(begin), events, err
	}
	if took, events, err := wait(t.Context(), 20*time.Millisecond); err != nil || events || took < 20*time.Millisecond {
		t.Errorf("without an event waited %s, %t, %v", took, events, err)
	}
	a.Wake()
	a.Wake()
	if took, events, err := wait(t.Context(), time.Hour); err != nil || events || took > time.Minute {
		t.Errorf("woken before waited %s, %t, %v", took, events, err)
	}
	if took, _, err := wait(t.Context(), 20*time.Millisecond); err != nil || took < 20*time.Millisecond {
		t.Errorf("woken once more: waited %s, %v", took, err)
	}
	woken := make(chan struct{})
	go func() { defer close(woken); a.Wake() }()
	if took, _, err := wait(t.Context(), time.Hour); err != nil || took > time.Minute {
		t.Errorf("woken meanwhile waited %s, %v", took, err)
	}
	<-woken
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, _, err := wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	if _, _, err := wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before by %v", err)
	}
	wake := a.wake
	a.Close()
	// A goroutine that comes late must not write to another file with the same number.
	other := -1
	for other != wake {
		if other, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil || other > wake {
			t.Fatalf("file %d, %v; want the number %d again", other, err, wake)
		}
		defer unix.Close(other)
	}
	a.Wake()
	var count [8]byte
	if _, err := unix.Read(other, count[:]); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("it has written %d to another file: %v", count, err)
	}
}

func TestAlarmNoCgroup(t *testing.T) {
	if _, err := newAlarm(filepath.Join(t.TempDir(), "gone.slice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

// TestAlarmInterrupted: signals to the thread, such as those with which the Go runtime stops
// goroutines, neither end nor prolong a wait.
func TestAlarmInterrupted(t *testing.T) {
	a, err := newAlarm(cgroup(t, "memory.events.local"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	thread, waited := make(chan int, 1), make(chan time.Duration, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		begin := time.Now()
		if _, err := a.Wait(t.Context(), 200*time.Millisecond); err != nil {
			t.Error(err)
		}
		waited <- time.Since(begin)
	}()
	tid, again := <-thread, time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		select {
		case took := <-waited:
			if took < 200*time.Millisecond || took > time.Minute {
				t.Errorf("waited %s, want 200ms", took)
			}
			return
		case <-again.C:
			if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
				t.Fatal(err)
			}
		}
	}
}
