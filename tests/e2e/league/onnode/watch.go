package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/tests/e2e/league/verdict"
)

const (
	// alone is the time in which the neighbour works before the load begins.
	alone = 5 * time.Second
	// quiet is the time without a signal after which a round is over, if there is memory again.
	quiet = 5 * time.Second
	// longest bounds a round.
	longest = 90 * time.Second
	// often is the time between two readings of signals.
	often = 100 * time.Millisecond
)

// watch sees a round from before its load begins until some time after the last signal. It reads
// the available memory each millisecond until the threshold is crossed. It learns of signals from
// the kernel's tracepoint, which has their times.
func watch(available func() (uint64, error), threshold uint64) (seen verdict.Seen, err error) {
	// A node without memory must not delay what measures it.
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return seen, fmt.Errorf("lock the program in memory: %w", err)
	}
	if seen.Processes, err = processes(); err != nil {
		return seen, err
	}
	if err := startTrace(); err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, os.Remove(trace)) }()
	if seen.Alone, err = rate(func() error { <-time.After(alone); return nil }); err != nil {
		return seen, err
	}
	var crossed time.Duration
	seen.Beside, err = rate(func() error {
		open, err := os.OpenFile(gate, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer open.Close()
		begin, interval := monotonic(), time.Millisecond
		for looked := begin; ; <-time.After(interval) {
			now := monotonic()
			left, err := available()
			if err != nil {
				return err
			}
			if crossed == 0 && left < threshold {
				crossed, interval = now, often
				if seen.FullPercent, err = fullPressure(); err != nil {
					return err
				}
			}
			if now-looked < often {
				continue
			}
			looked = now
			if seen.Signals, err = signals(begin); err != nil {
				return err
			}
			last := lastOf(seen)
			if last > 0 && now-last > quiet && left >= threshold || now-begin > longest {
				return nil
			}
		}
	})
	seen.Crossed = crossed != 0
	for i := range seen.Signals {
		seen.Signals[i].Millis -= float64(crossed.Microseconds()) / 1000
	}
	for i, p := range seen.Processes {
		seen.Processes[i].Ended = ended(p.PID)
	}
	return seen, err
}

// monotonic is the clock of the tracepoint, too.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails only for a clock that there is not
	return time.Duration(t.Nano())
}

// lastOf returns the time of the last signal to one of the processes, or 0.
func lastOf(seen verdict.Seen) time.Duration {
	for _, s := range slices.Backward(seen.Signals) {
		if slices.ContainsFunc(seen.Processes, func(p verdict.Process) bool { return p.PID == s.PID }) {
			return time.Duration(s.Millis * float64(time.Millisecond))
		}
	}
	return 0
}

// processes returns the first process of each container and of each service.
func processes() ([]verdict.Process, error) {
	var all []verdict.Process
	for _, top := range []string{"kubepods.slice", "system.slice"} {
		err := filepath.WalkDir(filepath.Join(cgroups.Mount, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "cgroup.procs" {
				return err
			}
			text, err := os.ReadFile(path)
			first, _, _ := strings.Cut(string(text), "\n")
			if pid, notOne := strconv.Atoi(first); err == nil && notOne == nil {
				cgroup := strings.TrimPrefix(filepath.Dir(path), cgroups.Mount+"/")
				all = append(all, verdict.Process{PID: pid, Cgroup: cgroup})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ended reports whether a process has ended. A zombie has: it waits for a parent that is busy.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// trace is an instance of the kernel's tracing, with the signals that could end a process.
const trace = "/sys/kernel/tracing/instances/league"

func startTrace() error {
	err := os.Mkdir(trace, 0o755)
	for name, value := range map[string]string{
		"trace_clock":                          "mono",
		"events/signal/signal_generate/filter": "sig==9 || sig==15",
		"events/signal/signal_generate/enable": "1",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(trace, name), []byte(value), 0o644))
	}
	return err
}

// generated matches an event: who caused it, when, and which process the signal is for.
var generated = regexp.MustCompile(`(?m)^ *(.+)-\d+ +\[\d+\] \S+ +(\d+\.\d+): signal_generate: .* pid=(\d+) grp=`)

// signals returns the signals since a time, with times since the boot. Earlier ones may still be
// about the pods of the round before.
func signals(since time.Duration) ([]verdict.Signal, error) {
	text, err := os.ReadFile(filepath.Join(trace, "trace"))
	all := []verdict.Signal{}
	for _, match := range generated.FindAllStringSubmatch(string(text), -1) {
		at, atErr := strconv.ParseFloat(match[2], 64)
		pid, pidErr := strconv.Atoi(match[3])
		err = errors.Join(err, atErr, pidErr)
		if at > since.Seconds() {
			all = append(all, verdict.Signal{Millis: at * 1000, PID: pid, From: match[1]})
		}
	}
	return all, err
}
