package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

// afterwards is the time for the work after a container has ended: a reconcile begins half a
// second after the last event.
const afterwards = 2 * time.Second

// consumer is a program that works for a container, and its cgroup.
type consumer struct{ name, cgroup string }

// consumers returns the programs that work for a container, and the whole node.
func consumers(socket string) []consumer {
	runtime := consumer{"containerd", "system.slice/containerd.service"}
	if filepath.Base(socket) == "crio.sock" {
		runtime = consumer{"CRI-O", "system.slice/crio.service"}
	}
	return []consumer{{"the monitor", monitorCgroup}, runtime, {"systemd", "init.scope"}, {"the whole node", ""}}
}

// cost counts the instructions for the start and the end of a container, with the monitor and
// without it. It runs on a node whose clock counts instructions.
func cost(ctx context.Context, s settings) ([]figure.Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, m, err := monitoredPod(ctx, s)
	if err != nil {
		return nil, err
	}
	all := consumers(s.runtime)
	rounds := make([][]figure.Round, len(all))
	for i := range rounds {
		rounds[i] = make([]figure.Round, s.rounds)
	}
	err = p.alternate(ctx, m, s.rounds, func(round int, with bool) error {
		// What the monitor does because it has just started is not what a container costs.
		if err := pause(ctx, afterwards); err != nil {
			return err
		}
		before, err := cpuTimes(all)
		if err != nil {
			return err
		}
		for range s.each {
			if err := p.once(ctx, with); err != nil {
				return err
			}
		}
		if err := pause(ctx, afterwards); err != nil {
			return err
		}
		after, err := cpuTimes(all)
		if err != nil || round == warmUp {
			return err
		}
		for i := range all {
			setHalf(&rounds[i][round], with, []time.Duration{(after[i] - before[i]) / time.Duration(s.each)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return costs(all, rounds, s), nil
}

// costs returns the instructions that each consumer has executed.
func costs(all []consumer, rounds [][]figure.Round, s settings) []figure.Figure {
	var figures []figure.Figure
	for i, c := range all {
		if c.cgroup == monitorCgroup {
			for j := range rounds[i] {
				rounds[i][j].B = []time.Duration{s.instruction * 1e6} // it has ended: to one million
			}
			f := figure.Ratio("instructions of the monitor for a container's start and end", nil, rounds[i])
			f.Unit = "million"
			f.Note = fmt.Sprintf("%d containers each way in %d rounds", s.rounds*s.each, s.rounds)
			figures = append(figures, f)
			continue
		}
		figures = append(figures, figure.Ratio("  of "+c.name+", with the monitor to without it", nil, rounds[i]))
		var without []time.Duration
		for _, r := range rounds[i] {
			without = append(without, r.B...)
		}
		figures = append(figures, figure.Figure{
			Name:  "  of " + c.name + ", without it",
			Value: float64(figure.Median(without)) / float64(s.instruction) / 1e6,
			Unit:  "million",
		})
	}
	return figures
}

// cpuTimes returns the CPU times of consumers so far.
func cpuTimes(all []consumer) ([]time.Duration, error) {
	times := make([]time.Duration, len(all))
	for i, c := range all {
		var err error
		if times[i], err = cpuTime(c.cgroup); err != nil {
			return nil, err
		}
	}
	return times, nil
}
