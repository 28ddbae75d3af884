package node

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
)

// TestConnection: each connection of the service has an identity of its own, and none after its end
// or that of the service.
func TestConnection(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nri.json")
	seen := map[string]bool{}
	for range 3 {
		if err := recordConnection(path, true); err != nil {
			t.Fatal(err)
		}
		got := readConnection(path)
		if got == "" || seen[got] {
			t.Errorf("%q after %v, want another identity", got, seen)
		}
		seen[got] = true
	}
	for range 2 { // also if there is none
		if err := recordConnection(path, false); err != nil {
			t.Fatal(err)
		}
		if got := readConnection(path); got != "" {
			t.Errorf("%q after the end", got)
		}
	}
	service := exec.Command("sleep", "infinity")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if err := host.WriteState(path, connection{time.Now(), service.Process.Pid}, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readConnection(path); got == "" {
		t.Error("no connection of a service that runs")
	}
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = service.Wait() // the error is the signal
	if got := readConnection(path); got != "" {
		t.Errorf("%q of a service that was killed", got)
	}
}
