package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSignals: a person at a terminal ends a command that waits for a pipe. The first Ctrl-C ends
// one that changes nothing, and the second one each other.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args    []string
		signals int
	}{
		{[]string{"validate"}, 1},
		{[]string{"render", "pod"}, 1},
		{[]string{"try"}, 2},
	} {
		n := newNode(t, "kind: KubeletConfiguration\n")
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := n.program(append(test.args, pipe)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the command has opened it
		if err != nil {
			t.Fatal(err)
		}
		signal := func() {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
		signal()
		if test.signals > 1 {
			// The program stops to catch signals in a goroutine, after the first.
			for ctrlC := time.NewTicker(10 * time.Millisecond); len(ended) == 0; <-ctrlC.C {
				_ = cmd.Process.Signal(syscall.SIGINT)
			}
		}
		<-ended
		if state := cmd.ProcessState.Sys().(syscall.WaitStatus); state.Signal() != syscall.SIGINT {
			t.Errorf("%q: %s, want the signal", test.args, cmd.ProcessState)
		}
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}
}
