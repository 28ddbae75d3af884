package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// watched is the output of watch.
type watched struct {
	// Millis is the time from the threshold to the signal that ends the victim's first process.
	Millis float64
	// Killed counts the processes that the kernel has killed meanwhile in the partition.
	Killed uint64
	// Growth is the growth in bytes per second, over the last samples before the threshold.
	Growth float64
}

// watch waits until available memory is below a threshold, of the partition or of the node, and
// then until the first process of a container has got a signal that ends it. It polls each
// millisecond, which is far less than the compared times. If both happen between two polls, the
// time from the earlier poll counts.
func watch(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	node := flags.Bool("node", false, "the node's memory, as the kubelet counts it, and not the partition's")
	threshold := flags.Uint64("threshold", 0, "bytes")
	container := flags.String("container", "", "ID of the victim's container")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root := cgroups.FS(cgroups.Mount)
	meter, err := root.MemoryMeter(partition.CgroupPath(partition.System.Slice()))
	if err != nil {
		return err
	}
	defer meter.Close()
	available := func() (uint64, error) { return partitionAvailable(meter) }
	if *node {
		available = nodeAvailable
	}
	before, _, err := root.OOMEvents(partition.CgroupPath(partition.System.Slice()))
	if err != nil {
		return err
	}
	process, err := findProcess(*container)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "watching")
	type sample struct {
		at   time.Time
		left uint64
	}
	var samples []sample
	signalled := false
	for !signalled {
		left, err := available()
		if err != nil {
			return err
		}
		signalled, err = process.signalled()
		if err != nil {
			return err
		}
		if !signalled {
			samples = append(samples, sample{time.Now(), left})
		}
		if left < *threshold {
			break
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if len(samples) == 0 {
		return errors.New("the victim had ended before the first look")
	}
	crossed := samples[len(samples)-1]
	if signalled && crossed.left > *threshold+*threshold/2 {
		return fmt.Errorf("the victim ended with %d bytes available", crossed.left)
	}
	early := samples[max(0, len(samples)-100)]
	for !signalled {
		if signalled, err = process.signalled(); err != nil {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	took := time.Since(crossed.at)
	after, _, err := root.OOMEvents(partition.CgroupPath(partition.System.Slice()))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(watched{
		Millis: float64(took.Microseconds()) / 1000, Killed: after - before,
		Growth: float64(early.left-min(early.left, crossed.left)) / crossed.at.Sub(early.at).Seconds(),
	})
}

// process is the folder of a process in /proc.
type process string

// findProcess finds the first process of a container.
func findProcess(container string) (process, error) {
	const pods = cgroups.Mount + "/kubepods.slice"
	for _, pattern := range []string{"*-pod*.slice/*", "*.slice/*-pod*.slice/*", "*.slice/*.slice/*-pod*.slice/*"} {
		scopes, err := filepath.Glob(filepath.Join(pods, pattern+container+".scope/cgroup.procs"))
		if err != nil {
			return "", err
		}
		for _, scope := range scopes {
			text, err := os.ReadFile(scope)
			if err != nil {
				return "", err
			}
			first, _, _ := strings.Cut(string(text), "\n")
			return process("/proc/" + first), nil
		}
	}
	return "", fmt.Errorf("container %s has no cgroup", container)
}

// Bits of the flags in /proc/PID/stat (include/linux/sched.h): the process is ending, and a signal
// ends it. Freeing the memory of a large process takes a while after that.
const (
	flagExiting  = 0x4
	flagSignaled = 0x400
)

// signalled reports whether a signal has ended the process.
func (p process) signalled() (bool, error) {
	text, err := os.ReadFile(string(p) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// After the name, which may have spaces: state, ppid, pgrp, session, tty_nr, tpgid, flags
	// (proc_pid_stat(5)).
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 7 {
		return false, fmt.Errorf("%s/stat is %q", p, text)
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return flags&(flagExiting|flagSignaled) != 0, err
}

// partitionAvailable returns the available memory as pkg/evict computes it.
func partitionAvailable(meter *cgroups.MemoryMeter) (uint64, error) {
	reading, err := meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return 0, err
	}
	return reading.Available(reading.Max), nil
}

// nodeAvailable returns the available memory as the kubelet computes it: capacity less the working
// set of the root cgroup. The usage of that is MemTotal - MemFree (statMemory,
// opencontainers/cgroups fs2/memory.go), and its inactive_file is in its memory.stat.
func nodeAvailable() (uint64, error) {
	values := map[string]uint64{}
	for _, file := range []string{"/proc/meminfo", cgroups.Mount + "/memory.stat"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 {
				continue
			}
			if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				values[fields[0]] = n
			}
		}
	}
	used := (values["MemTotal:"]-values["MemFree:"])<<10 - values["inactive_file"]
	return values["MemTotal:"]<<10 - used, nil
}
