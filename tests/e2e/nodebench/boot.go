package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
	"node-partition.io/node-partition/tests/lab"
)

// boots is the number of boots of each kind.
const boots = 5

// aside is the path of the generator while systemd is not to find it. Without the generator nothing
// starts the monitor.
const (
	generator = "/usr/lib/systemd/system-generators/partition-generator"
	aside     = "/root/partition-generator"
)

// booting lists the commands before a boot of each kind. The first is the reference.
var booting = []struct{ name, before string }{
	{"without the generator", "if test -e " + generator + "; then mv " + generator + " " + aside + "; fi"},
	{"a boot with a partition, to one without the generator", "mv " + aside + " " + generator},
	{"a boot without a section, to one without the generator", "sed -i.section '/^systemPartition:/,$d' " + lab.KubeletConfigPath},
}

// milestones are points of a boot, and the properties that have their times.
var milestones = []struct{ name, unit, property string }{
	{"until the kubelet starts", "kubelet.service", "ExecMainStartTimestampMonotonic"},
	{"until multi-user.target", "multi-user.target", "ActiveEnterTimestampMonotonic"},
}

// boot boots a node of each kind in turn, and compares the times from the start of PID 1.
func (b *bench) boot(ctx context.Context, n *lab.Node, _ lab.Flavour) ([]figure.Figure, error) {
	times := make([][][]time.Duration, len(booting)) // by kind, boot and milestone
	for round := range boots {
		for i, kind := range booting {
			if _, err := n.Run(ctx, kind.before); err != nil {
				return nil, err
			}
			if err := n.Reboot(ctx); err != nil {
				return nil, err
			}
			took, err := bootTimes(ctx, n)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
			b.progress(fmt.Sprintf("  %d: %s: %v", round, kind.name, took))
		}
		if _, err := n.Run(ctx, "mv "+lab.KubeletConfigPath+".section "+lab.KubeletConfigPath); err != nil {
			return nil, err
		}
	}
	var all []figure.Figure
	for m, milestone := range milestones {
		for i, kind := range booting[1:] {
			var rounds []figure.Round
			for round := range boots {
				rounds = append(rounds, figure.Round{
					A: times[i+1][round][m : m+1],
					B: times[0][round][m : m+1],
				})
			}
			all = append(all, figure.Ratio(kind.name+", "+milestone.name, nil, rounds))
		}
		var without []time.Duration
		for _, took := range times[0] {
			without = append(without, took[m])
		}
		all = append(all, figure.Millis("  without, "+milestone.name, without))
	}
	return all, nil
}

// bootTimes waits for the end of the boot, and returns the time of each milestone since the start
// of PID 1.
func bootTimes(ctx context.Context, n *lab.Node) ([]time.Duration, error) {
	// A unit that has failed is no concern of this benchmark.
	if _, err := n.Run(ctx, "systemctl is-system-running --wait || true"); err != nil {
		return nil, err
	}
	read := func(command string) (int64, error) {
		out, err := n.Run(ctx, command)
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	}
	began, err := read("systemctl show --value -p UserspaceTimestampMonotonic")
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, m := range milestones {
		at, err := read("systemctl show --value -p " + m.property + " " + m.unit)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", m.property, m.unit, err)
		}
		times = append(times, time.Duration(at-began)*time.Microsecond)
	}
	return times, nil
}
