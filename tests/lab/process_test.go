package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestProcessIdentity(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.alive() || self.StartTime == 0 || self.BootID == "" {
		t.Errorf("%+v", self)
	}
	// A process that got the number later, and a process of another boot of the host.
	later, boot := self, self
	later.StartTime++
	boot.BootID = "another"
	for _, other := range []process{later, boot} {
		if other.alive() {
			t.Errorf("%+v is taken for %+v", self, other)
		}
		// Without the check of the identity this would end the test.
		if err := other.signal(syscall.SIGKILL); !errors.Is(err, errGone) {
			t.Errorf("signal: %v", err)
		}
		if err := other.end(t.Context(), time.Second); err != nil {
			t.Errorf("end: %v", err)
		}
	}
}

func TestProcessEnd(t *testing.T) {
	for name, script := range map[string]string{"willing": "exec sleep 1000", "stubborn": "trap '' TERM; while :; do sleep 1; done"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", script)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			p, err := identify(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			reaped := make(chan struct{})
			go func() { _ = cmd.Wait(); close(reaped) }()
			if err := p.end(t.Context(), 500*time.Millisecond); err != nil {
				t.Error(err)
			}
			<-reaped
			if p.alive() {
				t.Error("alive")
			}
			if err := p.signal(syscall.SIGTERM); !errors.Is(err, errGone) {
				t.Errorf("signal: %v", err)
			}
		})
	}
}

func TestProcessWaitEndsWithItsContext(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := self.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
