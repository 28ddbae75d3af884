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

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices"
)

// watched is what watch prints.
type watched struct {
	// Millis from the threshold to the end of the victim's first process.
	Millis float64
	// Killed are the processes that the kernel has killed meanwhile in the partition.
	Killed uint64
	// Growth is in bytes per second, over the last bytes before the threshold.
	Growth float64
}

// watch waits until available memory is below a threshold, of the partition or of the node, and then until a process of a container
// ends. It looks each millisecond, which is far less than what it is compared with takes.
func watch(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	node := flags.Bool("node", false, "the node's memory, as the kubelet counts it, and not the partition's")
	threshold := flags.Uint64("threshold", 0, "bytes")
	container := flags.String("container", "", "ID of the victim's container")
	if err := flags.Parse(args); err != nil {
		return err
	}
	available := partitionAvailable
	if *node {
		available = nodeAvailable
	}
	root := cgroupfs.FS(cgroupfs.Mount)
	before, _, err := root.OOMEvents(cgroupfs.SlicePath(slices.SystemSlice))
	if err != nil {
		return err
	}
	process, err := openProcess(*container)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	fmt.Fprintln(os.Stderr, "watching")
	type sample struct {
		at   time.Time
		left uint64
	}
	var samples []sample
	for {
		left, err := available()
		if err != nil {
			return err
		}
		samples = append(samples, sample{time.Now(), left})
		if left < *threshold {
			break
		}
		if ended, err := ends(process, time.Millisecond); err != nil || ended {
			return errors.Join(err, fmt.Errorf("the victim ended before, at %d bytes", left))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	crossed := samples[len(samples)-1]
	early := samples[max(0, len(samples)-100)]
	for ended := false; !ended; {
		if ended, err = ends(process, time.Second); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	took := time.Since(crossed.at)
	after, _, err := root.OOMEvents(cgroupfs.SlicePath(slices.SystemSlice))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(watched{
		Millis: float64(took.Microseconds()) / 1000, Killed: after - before,
		Growth: float64(early.left-min(early.left, crossed.left)) / crossed.at.Sub(early.at).Seconds(),
	})
}

// openProcess opens the first process of a container.
func openProcess(container string) (int, error) {
	const pods = cgroupfs.Mount + "/kubepods.slice"
	for _, pattern := range []string{"*-pod*.slice/*", "*.slice/*-pod*.slice/*", "*.slice/*.slice/*-pod*.slice/*"} {
		scopes, err := filepath.Glob(filepath.Join(pods, pattern+container+".scope/cgroup.procs"))
		if err != nil {
			return 0, err
		}
		for _, scope := range scopes {
			text, err := os.ReadFile(scope)
			if err != nil {
				return 0, err
			}
			first, _, _ := strings.Cut(string(text), "\n")
			pid, err := strconv.Atoi(first)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", scope, err)
			}
			return unix.PidfdOpen(pid, 0)
		}
	}
	return 0, fmt.Errorf("container %s has no cgroup", container)
}

// ends waits for a process to end.
func ends(process int, d time.Duration) (bool, error) {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(d.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

// partitionAvailable is what pkg/evict goes by.
func partitionAvailable() (uint64, error) {
	meter, err := cgroupfs.FS(cgroupfs.Mount).MemoryMeter(cgroupfs.SlicePath(slices.SystemSlice))
	if err != nil {
		return 0, err
	}
	defer meter.Close()
	reading, err := meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return 0, err
	}
	return reading.Max - min(reading.Max, evict.Memory(reading).Used()), nil
}

// nodeAvailable is what the kubelet goes by: capacity less the working set of the root cgroup, whose usage is MemTotal - MemFree
// (statMemory, opencontainers/cgroups fs2/memory.go) and whose inactive_file stands in its memory.stat.
func nodeAvailable() (uint64, error) {
	values := map[string]uint64{}
	for _, file := range []string{"/proc/meminfo", cgroupfs.Mount + "/memory.stat"} {
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
