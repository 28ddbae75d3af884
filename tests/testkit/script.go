package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteScript writes a script of /bin/sh to path, which may exist.
//
// No other test of the process can fork while the file is open: its child would hold the file open
// for writing until it executes its own program, and the kernel refuses to execute a file that is
// open for writing (ETXTBSY, golang.org/issue/22315).
func WriteScript(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
