package systemd

import (
	"testing"
	"time"
)

// TestReloadSlow: systemd answers a reload when it is done, which may be long after the
// timeout of other methods.
func TestReloadSlow(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	systemd := newFake(b)
	c := make(told, 10)
	o := c.options(b)
	o.Timeout = 500 * time.Millisecond
	systemd.on(func(call string) {
		if call == "Reload" {
			<-time.After(2 * o.Timeout)
		}
	})
	client := run(t, o)
	c.want(t, "connected true", "reloaded", "wake")
	if err := client.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if calls := systemd.seen(); len(calls) != 2 || calls[1] != "Reload" { // the first is Subscribe
		t.Errorf("systemd was asked %q; want one reload", calls)
	}
}
