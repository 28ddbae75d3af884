// Command killat runs a program and kills it before it executes its n-th system call of a name. All
// threads count together. It ends like the program, or by SIGKILL if it has killed it.
//
//	killat CALL N PROGRAM [ARG...]
//
// strace can do the same, but stops the program at each of its system calls: a thousand for the
// generator, most of which look for files. With --seccomp-bpf, as here, the kernel stops it at the
// chosen calls alone, but then strace injects no signals (6.1).
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls lists the system calls that can be named.
var calls = map[string]uint32{
	"close":     unix.SYS_CLOSE,
	"flock":     unix.SYS_FLOCK,
	"mkdirat":   unix.SYS_MKDIRAT,
	"openat":    unix.SYS_OPENAT,
	"renameat":  unix.SYS_RENAMEAT,
	"symlinkat": unix.SYS_SYMLINKAT,
	"unlinkat":  unix.SYS_UNLINKAT,
	"write":     unix.SYS_WRITE,
}

// filtered is the first argument of the process that becomes the program.
const filtered = "--filtered"

func main() {
	// ptrace and seccomp are about threads.
	runtime.LockOSThread()
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "killat:", err)
		os.Exit(2)
	}
	if status.Signaled() {
		err = unix.Kill(unix.Getpid(), status.Signal())
		fmt.Fprintln(os.Stderr, "killat: after", status.Signal(), err)
	}
	os.Exit(status.ExitStatus())
}

func run(args []string) (syscall.WaitStatus, error) {
	if len(args) < 3 {
		return 0, errors.New("want CALL, N, PROGRAM and its arguments")
	}
	if args[0] == filtered {
		return 0, become(args[1], args[2:])
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("/proc/self/exe", append([]string{filtered, args[0]}, args[2:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return trace(cmd.Process.Pid, n)
}

// become makes the kernel stop this thread at a system call, and executes the program in its place.
func become(call string, command []string) error {
	nr, ok := calls[call]
	if !ok {
		return fmt.Errorf("%s: not among the known system calls", call)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // nr of struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	if err != nil {
		return err
	}
	return unix.Exec(command[0], command, os.Environ())
}

// trace follows a process, which has stopped at its start, until it has executed the program and
// that has ended. It kills the program before the n-th of the calls that the kernel stops at.
func trace(process, n int) (syscall.WaitStatus, error) {
	entered, program := 0, false
	for {
		var status syscall.WaitStatus
		thread, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait: %w", err)
		}
		if !status.Stopped() {
			if thread == process {
				return status, nil
			}
			continue
		}
		signal := 0
		switch status.TrapCause() {
		case unix.PTRACE_EVENT_SECCOMP:
			if program {
				entered++
			}
			if entered == n {
				if err := unix.Kill(process, unix.SIGKILL); err != nil {
					return 0, err
				}
			}
		case unix.PTRACE_EVENT_EXEC:
			program = true
		case unix.PTRACE_EVENT_CLONE:
		case 0: // the first stop
			const stops = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP
			if err := unix.PtraceSetOptions(thread, unix.PTRACE_O_EXITKILL|stops); err != nil {
				return 0, err
			}
		default:
			// A new thread begins with SIGSTOP. The program's own signals are passed on.
			if status.StopSignal() != unix.SIGSTOP {
				signal = int(status.StopSignal())
			}
		}
		// A thread may have been killed meanwhile.
		if err := unix.PtraceCont(thread, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, err
		}
	}
}
