package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunChildKeepsOutput: a program that is ended does not keep its caller waiting for the output
// that a child of it has inherited.
func TestRunChildKeepsOutput(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Programs("").Run(ctx, "/bin/sh", "-c", "cat "+pipe+" & wait")
		ended <- err
	}()
	held, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the child, which ends after Close
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "sh -c") {
		t.Errorf("%v; want that it was ended", err)
	}
}
