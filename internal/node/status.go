package node

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// This file reads the state of a node: what the command status prints and the monitor's
// page draws. It reads files and cgroups, changes nothing, and asks no other program.

// Pods returns the pods of a partition that an eviction can choose from.
type Pods func(partition.Name) []evict.Pod

// ReadStatus reads the partitions of a configuration that are active, and ranks their pods as the
// service does. report has the places of the pods. lent has what the node lends to partitions,
// which only the service knows. What cannot be read is in the Problem.
func ReadStatus(
	n host.Node, flags EvictionFlags, config Followed, found report.Report, pods Pods, lent map[partition.Name]uint64,
) state.Status {
	status := state.Status{Partitions: []state.Partition{}, Problem: config.ManagedByKubelet, Report: found}
	if config.Problem != nil {
		status.Problem = config.Problem.Error()
	}
	unread := func(err error) {
		if err != nil {
			status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
		}
	}
	var err error
	status.Trial, err = ReadTrial(n)
	unread(err)
	unread(n.NoCgroups())
	for i := range config.Partitions {
		p := &config.Partitions[i]
		active, ok := readActive(n.Cgroups, p.Name)
		if !ok {
			continue
		}
		active.Types, active.Namespaces = config.Types(p.Name), p.Namespaces
		active.CPUs, active.Exclusive = p.CPUs, p.Exclusive
		// The places of the pods are shown without it, too.
		unread(readMemory(&active, n, config.EvictionOf(p, flags), pods(p.Name), lent[p.Name]))
		status.Partitions = append(status.Partitions, active)
	}
	return status
}

// readActive reads the cgroup of a partition. It returns false if the partition is not active.
func readActive(tree cgroups.FS, name partition.Name) (state.Partition, bool) {
	active := state.Partition{Name: name, Slice: name.Slice()}
	path := partition.CgroupPath(active.Slice)
	limits, err := tree.Limits(path)
	if err != nil {
		return active, false
	}
	active.CPUWeight = limits.CPUWeight
	active.MinBytes, active.LowBytes = limits.Protection.Min, limits.Protection.Low
	if limits.MemoryMax != cgroups.Unlimited {
		active.LimitBytes = &limits.MemoryMax
	}
	if bytes, err := tree.MemoryCurrent(path); err == nil {
		active.MemoryBytes = bytes
	}
	if bytes, err := tree.SwapCurrent(path); err == nil {
		active.SwapBytes = bytes
	}
	return active, true
}

// readMemory reads the memory of a partition, and ranks its pods as the service does. It evicts
// none.
func readMemory(a *state.Partition, n host.Node, config evict.Settings, pods []evict.Pod, lent uint64) error {
	reading, err := n.Cgroups.ReadMemory(partition.CgroupPath(a.Slice))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a.UsedBytes = reading.Used()
	a.Eviction, err = readEviction(a, n, config, reading, pods, lent)
	return err
}

// readEviction ranks the pods of a partition whose memory was read. With a burst it replaces the
// limit in force by the one that is guarded.
func readEviction(
	a *state.Partition, n host.Node, config evict.Settings, reading cgroups.MemoryReading, pods []evict.Pod, lent uint64,
) (*state.Eviction, error) {
	history, err := readEvictions(n, a.Name)
	if err != nil {
		return nil, err
	}
	var problems []error
	pods = evict.Measure(n.Cgroups, pods, func(err error) { problems = append(problems, err) })
	snapshot := evict.Situation{
		Now:    time.Now(),
		Config: config,
		Memory: reading,
		Pods:   pods,
		Lent:   lent,

		Ownerless: evict.Ownerless(reading.Used(), pods),

		State: evict.State{Cooldown: history.Cooldown, Unreclaimable: history.Unreclaimable, LeftAt: history.LeftAt},
	}
	decision, config := evict.Decide(snapshot), snapshot.Effective()
	if config.Burst > 0 && a.LimitBytes != nil {
		a.LimitBytes, a.LentBytes = &decision.Limit, config.Lent(decision.Limit)
	}
	s := &state.Eviction{
		Mode:            "on",
		AvailableBytes:  decision.Available,
		WorkingSetBytes: reading.WorkingSet(),
		OwnerlessBytes:  snapshot.Ownerless,
		HardBytes:       config.Hard,
		SoftBytes:       config.Soft,
		SoftGrace:       config.SoftGrace,
		Crossed:         decision.Crossed,
		Order:           []state.Candidate{},
		Open:            append([]evict.Eviction{}, history.Open...),
		Last:            append([]evict.Eviction{}, history.Last...),
	}
	if decision.Limit == cgroups.Unlimited {
		s.NoLimit, s.AvailableBytes = true, 0
	}
	switch {
	case config.Off:
		s.Mode = "off"
	case config.DryRun:
		s.Mode = "dry-run"
	}
	for _, c := range decision.Order {
		s.Estimated = s.Estimated || c.Estimated
		s.Order = append(s.Order, state.Candidate{
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Priority: c.Priority,
			WorkingSetBytes: c.Usage.WorkingSet, RequestBytes: c.Request, Estimated: c.Estimated, Skip: c.Skip,
		})
	}
	return s, errors.Join(problems...)
}
