package lab

import (
	"errors"
	"os"
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
