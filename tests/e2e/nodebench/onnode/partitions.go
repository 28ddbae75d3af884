package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

const (
	overridePath = "/etc/kubernetes/node-partition.yaml"
	// maxOfFour limits what the monitor takes with four partitions, as a ratio to one.
	maxOfFour = 2.0
	// three is the number of partitions beside the system partition.
	three = 3
)

// partitions compares what the monitor takes with four partitions, and nothing to do, with what it
// takes with one: before and after, so that a drift of the node is not taken for it.
func partitions(ctx context.Context, s settings) ([]figure.Figure, error) {
	var one, four taken
	for round := range 2 {
		if err := one.watch(ctx, s.idle); err != nil {
			return nil, err
		}
		if err := configure(ctx, three); err != nil {
			return nil, err
		}
		if err := four.watch(ctx, s.idle); err != nil {
			return nil, err
		}
		if err := configure(ctx, 0); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := one.watch(ctx, s.idle); err != nil {
		return nil, err
	}
	cpu := func(t taken) float64 { return 100 * t.cpu.Seconds() / t.during.Seconds() }
	return []figure.Figure{
		{Name: "CPU time of the monitor with four partitions, to one", Value: cpu(four) / cpu(one), Limit: new(maxOfFour)},
		{Name: "  with one", Value: cpu(one), Unit: "% of a CPU"},
		{Name: "  with four", Value: cpu(four), Unit: "% of a CPU"},
		{
			Name: "resident memory of the monitor with four partitions, to one", Value: four.resident / one.resident,
			Limit: new(maxOfFour),
		},
		{Name: "  with one", Value: one.resident / 1e6, Unit: "MB"},
		{Name: "  with four", Value: four.resident / 1e6, Unit: "MB", Limit: new(maxMemory)},
	}, nil
}

// taken holds what the monitor has taken.
type taken struct {
	cpu, during time.Duration
	resident    float64 // the most, in bytes
}

// watch adds what the monitor takes in a time.
func (t *taken) watch(ctx context.Context, long time.Duration) error {
	before, err := cpuTime("system.slice/" + monitorUnit)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := pause(ctx, long); err != nil {
		return err
	}
	after, err := cpuTime("system.slice/" + monitorUnit)
	if err != nil {
		return err
	}
	_, resident, err := memory()
	t.cpu, t.during, t.resident = t.cpu+after-before, t.during+time.Since(begin), max(t.resident, resident)
	return err
}

// configure gives the node that many partitions beside the system partition, with its limit, and
// waits until the monitor polls their memory.
func configure(ctx context.Context, others int) error {
	var text strings.Builder
	text.WriteString("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nworkloadPartitions:\n")
	for i := range others {
		fmt.Fprintf(&text, "  bench-%d: {memoryLimit: 3Gi, namespaces: [bench-%d]}\n", i, i)
	}
	err := os.Remove(overridePath)
	if others > 0 {
		err = os.WriteFile(overridePath, []byte(text.String()), 0o644)
	}
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "daemon-reload").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl daemon-reload: %w: %s", err, out)
	}
	err = eventually(ctx, fmt.Sprintf("%d other partitions", others), func() bool {
		series, err := monitorSays(serviceAddress)
		found := 0
		for name := range series {
			if strings.HasPrefix(name, `nodepartition_eviction_last_poll_timestamp_seconds{partition="bench-`) {
				found++
			}
		}
		return err == nil && found == others
	})
	if err != nil {
		return err
	}
	return pause(ctx, afterwards)
}
