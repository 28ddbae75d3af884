package main

import (
	"syscall"
	"unsafe"
)

// A process that forks without exec has one thread, this one, and nothing of Go's runtime: the functions here do nothing
// in it but raw system calls, and never grow the stack.

//go:norace
//go:nosplit
func rawFork() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

//go:norace
//go:nosplit
func rawSleep(life *syscall.Timespec) {
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(life)), 0, 0)
}

//go:norace
//go:nosplit
func rawExit() {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// forkChild starts a process that lives for a while.
//
//go:norace
//go:nosplit
func forkChild(life *syscall.Timespec) syscall.Errno {
	pid, errno := rawFork()
	if errno == 0 && pid == 0 {
		rawSleep(life)
		rawExit()
	}
	return errno
}

// forkChain starts a process that lives for a while, starts its successor and ends, and so on.
//
//go:norace
//go:nosplit
func forkChain(life *syscall.Timespec) syscall.Errno {
	pid, errno := rawFork()
	if errno != 0 || pid != 0 {
		return errno
	}
	for {
		rawSleep(life)
		// Without a successor, where processes are limited, it goes on itself.
		if pid, errno := rawFork(); errno == 0 && pid != 0 {
			rawExit()
		}
	}
}
