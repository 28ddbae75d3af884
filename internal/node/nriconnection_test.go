package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
)

// TestConnectionIdentity: each connection of the service has an identity of its own, and none after
// its end.
func TestConnectionIdentity(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nri.json")
	if got := readConnection(path); got != "" {
		t.Errorf("%q before the first connection", got)
	}
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
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readConnection(path); got != "" {
		t.Errorf("%q from a file that is no JSON", got)
	}
}

// TestConnectionOfKilled: a service that was killed leaves its record, and is not connected.
func TestConnectionOfKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nri.json")
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
