package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestListenPortTaken: if another program has the port for metrics, pods are evicted all the same,
// and the log has the error once.
func TestListenPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	n := guarded(t)
	n.TellPods()
	var said string
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "metrics and health are not served") {
			said += line
		}
		if strings.Contains(line, "stopping the containers of a pod") {
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
		}
	}, "--listen="+taken.Addr().String())
	if killed := n.Killed(); !slices.Equal(killed, []string{"dns"}) {
		t.Errorf("killed: %v; want dns", killed)
	}
	if !strings.Contains(said, "trying again") || !strings.Contains(said, taken.Addr().String()) || strings.Count(said, "trying again") != 1 {
		t.Errorf("%q; want once which address", said)
	}
}
