package node

import (
	"os"
	"testing"
)

// AwaitReadyAgain is AwaitReady with another time between two requests.
var AwaitReadyAgain = awaitReady

// ShortDir returns a folder whose path is short enough for sockets.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "control")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
