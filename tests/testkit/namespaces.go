package testkit

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// NeedNamespaces returns the attributes of a process that may mount file systems: it is root in a
// user namespace, and sees mounts that no other process sees.
func NeedNamespaces(tb testing.TB) *syscall.SysProcAttr {
	tb.Helper()
	if err := tried(); err != nil {
		cannot(tb, "%v: user namespaces have to be allowed", err)
	}
	return namespaces()
}

var tried = sync.OnceValue(func() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = namespaces()
	return cmd.Run()
})

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}
