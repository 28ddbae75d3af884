package lab

import (
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	read := func(lines ...string) usage {
		u, err := parseUsage(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := read("cpu.stat:usage_usec 30000000", "system.slice/cpu.stat:usage_usec 20000000", "system.slice/kubelet.service/cpu.stat:usage_usec 10000000",
		"system.slice/ssh.service/cpu.stat:usage_usec 8000000")
	now := read("cpu.stat:usage_usec 50000000", "system.slice/cpu.stat:usage_usec 35000000", "system.slice/kubelet.service/cpu.stat:usage_usec 16500000",
		"system.slice/ssh.service/cpu.stat:usage_usec 2000000", "system.slice/dbus.service/cpu.stat:usage_usec 100000", "init.scope/cpu.stat:usage_usec 4000000")
	const want = "the node 20.0 s, kubelet.service 6.5, init.scope 4.0, ssh.service 2.0"
	if got := now.since(before); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := parseUsage("cpu.stat:usage_usec many"); err == nil {
		t.Error("no error of a figure that is no number")
	}
}
