package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

const (
	monitorUnit = "partition-monitor.service"
	kubeletUnit = "kubelet.service"
	// maxMemory limits the monitor's memory.
	maxMemory = 40.0
	// maxShare limits the monitor's CPU time as a share of the kubelet's.
	maxShare = 1.0 / 20
)

// idle compares the CPU time of the monitor's service with that of the kubelet's, with pods in
// place and nothing to do.
func idle(ctx context.Context, s settings) ([]figure.Figure, error) {
	before, err := monitorSays(serviceAddress)
	if err != nil {
		return nil, err
	}
	if got := before[`kubelet_partition_pod_count{partition="system"}`]; got != float64(s.pods) {
		return nil, fmt.Errorf("%v pods are in the system partition, want %d", got, s.pods)
	}
	var used [2]time.Duration
	services := []string{monitorUnit, kubeletUnit}
	for i, unit := range services {
		if used[i], err = cpuTime("system.slice/" + unit); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	if err := pause(ctx, s.idle); err != nil {
		return nil, err
	}
	for i, unit := range services {
		now, err := cpuTime("system.slice/" + unit)
		if err != nil {
			return nil, err
		}
		used[i] = now - used[i]
	}
	took := time.Since(begin)
	charged, resident, err := memory()
	if err != nil {
		return nil, err
	}
	after, err := monitorSays(serviceAddress)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("with %d pods idle for %s: ", s.pods, took.Round(time.Second))
	percent := func(i int) figure.Figure {
		return figure.Figure{Name: "  " + services[i], Value: 100 * used[i].Seconds() / took.Seconds(), Unit: "% of a CPU"}
	}
	share := figure.Figure{
		Name:  name + "the monitor's CPU time, to the kubelet's",
		Value: float64(used[0]) / float64(used[1]),
		Limit: new(maxShare),
	}
	share.Note = fmt.Sprintf("%.0f passes", after[reconcileCount]-before[reconcileCount])
	return []figure.Figure{
		share,
		percent(0),
		percent(1),
		{Name: "resident memory of the monitor", Value: resident / 1e6, Unit: "MB", Limit: new(maxMemory), Note: "VmRSS"},
		{
			Name:  "memory that is charged to the monitor",
			Value: charged / 1e6,
			Unit:  "MB",
			Limit: new(maxMemory),
			Note:  "memory.current of its service",
		},
	}, nil
}

// cpuTime returns the CPU time of the processes in a cgroup, CPUUsageNSec= of systemctl show. An
// empty path is the whole node.
func cpuTime(cgroup string) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(cgroups.Mount, cgroup, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			micros, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(micros) * time.Microsecond, err
		}
	}
	return 0, errors.New(cgroup + ": no usage_usec")
}

// memory returns the memory of the monitor, in bytes.
func memory() (charged, resident float64, err error) {
	current, err := tree.MemoryCurrent("system.slice/" + monitorUnit)
	if err != nil {
		return 0, 0, err
	}
	pid, err := exec.Command("systemctl", "show", "--value", "-p", "MainPID", monitorUnit).Output()
	if err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			return float64(current), kilobytes * 1024, err
		}
	}
	return 0, 0, errors.New("the monitor's status has no VmRSS")
}

// serviceAddress is the address of the monitor's service.
const serviceAddress = "127.0.0.1:9948"

const reconcileCount = "nodepartition_reconcile_duration_seconds_count"

// monitorSays returns the metrics of a monitor, by series.
func monitorSays(address string) (map[string]float64, error) {
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	series := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil {
			series[name] = number
		}
	}
	return series, nil
}
