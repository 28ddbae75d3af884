package main

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// meters holds functions that return the available memory, each as a keeper counts it.
var meters = map[string]func() (uint64, error){
	"partition": inPartition, "kubelet": onNode, "meminfo": inMeminfo,
}

// meter has the files of the partition open until the program ends.
var meter = sync.OnceValues(func() (*cgroups.MemoryMeter, error) {
	return cgroups.FS(cgroups.Mount).MemoryMeter(partition.CgroupPath(partition.System.Slice()))
})

// inPartition returns the available memory as pkg/evict computes it.
func inPartition() (uint64, error) {
	m, err := meter()
	if err != nil {
		return 0, err
	}
	reading, err := m.Read(func(uint64, uint64) bool { return false })
	return reading.Available(reading.Max), err
}

// onNode returns the available memory as the kubelet computes it: capacity less the working set of
// the root cgroup. The usage of that is MemTotal - MemFree (statMemory, opencontainers/cgroups
// fs2/memory.go), and its inactive_file is in its memory.stat.
func onNode() (uint64, error) {
	values, err := numbers("/proc/meminfo", cgroups.Mount+"/memory.stat")
	used := (values["MemTotal:"]-values["MemFree:"])<<10 - values["inactive_file"]
	return values["MemTotal:"]<<10 - used, err
}

func inMeminfo() (uint64, error) {
	values, err := numbers("/proc/meminfo")
	return values["MemAvailable:"] << 10, err
}

// numbers reads files with a name and a number in each line.
func numbers(files ...string) (map[string]uint64, error) {
	values := map[string]uint64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 {
				values[fields[0]], _ = strconv.ParseUint(fields[1], 10, 64) // all files of these have numbers
			}
		}
	}
	return values, nil
}
