// Command killer runs on a node during a test. Each time the monitor records an eviction, it waits
// up to a few milliseconds and kills the monitor: between decision and action, in the middle of the
// action, or after it. It prints a line for each.
//
//	killer UNIT STATE-FILE TIMES
package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// latest is the longest time from the state file to the kill: about as long as an eviction takes.
const latest = 20 * time.Millisecond

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "killer:", err)
		os.Exit(1)
	}
}

func run(unit, state, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(watch, filepath.Dir(state), unix.IN_MOVED_TO); err != nil {
		return err
	}
	fmt.Println("watching")
	last := ""
	for n > 0 {
		pid, err := mainPID(unit)
		if err != nil {
			return err
		}
		if err := wait(watch, filepath.Base(state)); err != nil {
			return err
		}
		// One kill for each eviction: a later record of the same one does not count.
		uid, err := opened(state)
		if err != nil || uid == "" || uid == last {
			continue
		}
		last = uid
		delay := time.Duration(rand.Int64N(int64(latest)))
		if n%4 != 0 {
			<-time.After(delay)
		} else {
			delay = 0 // some at once
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		n--
		fmt.Println("killed", pid, "after", delay, "for", uid)
		if err := again(unit, pid); err != nil {
			return err
		}
	}
	return nil
}

func mainPID(unit string) (int, error) {
	out, err := exec.Command("systemctl", "show", "--value", "-p", "MainPID", unit).Output()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// again waits until the unit has another process.
func again(unit string, old int) error {
	for {
		pid, err := mainPID(unit)
		if err != nil {
			return err
		}
		if pid != 0 && pid != old {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
}

// wait waits until a file of that name is moved into the watched folder.
func wait(watch int, name string) error {
	buffer := make([]byte, 4096)
	for {
		n, err := unix.Read(watch, buffer)
		if err != nil {
			return err
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
			end := unix.SizeofInotifyEvent + int(event.Len)
			if string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00")) == name {
				return nil
			}
			rest = rest[end:]
		}
	}
}

// opened returns the UID of the eviction that is under way according to the state file.
func opened(state string) (string, error) {
	data, err := os.ReadFile(state)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(data), `"open":[{"uid":"`)
	if !ok {
		return "", nil
	}
	uid, _, _ := strings.Cut(rest, `"`)
	return uid, nil
}
