// Command condemner becomes a program. If the environment has CONDEMNER, the kernel kills that
// before it writes its first file of one byte. The only such file of the monitor is cgroup.kill. It
// is open by then: no name of a file shows that the moment has come, and a tracer would slow down
// the readings before it.
//
//	condemner PROGRAM [ARG...]
package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // a filter is a thread's
	err := filter()
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "condemner:", err)
	os.Exit(2)
}

// filter has the kernel kill this process at a write of one byte. The unit's NoNewPrivileges= is
// what a filter needs.
func filter() error {
	if os.Getenv("CONDEMNER") == "" {
		return nil
	}
	// Of struct seccomp_data: nr, and the lower half of args[2], which is the number of bytes.
	const nr, bytes = 0, 32
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_WRITE, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: bytes},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 1, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
