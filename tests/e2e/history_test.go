//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/command/history"
	"nodepartition/internal/command/recommend"
	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/tests/lab"
)

// TestHistory: with --history-members the service records the node in the sandbox of its unit, once
// an operator has made the folder. history shows the samples, and recommend's section can be tried.
func TestHistory(t *testing.T) {
	onEach(t, kinds(allFlavours(), "crio"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "256Mi")
		parent := strings.TrimSuffix(node.HistoryDir, "/history")
		if out := run(t, n, "ls -d "+parent+" 2>&1 || true"); !strings.Contains(out, "No such file") {
			t.Errorf("without --history: %s", out)
		}
		args := lab.File{Path: monitorDefaults, Data: []byte("PARTITION_MONITOR_ARGS=--history-members\n")}
		if err := n.CopyTo(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		run(t, n, "systemctl restart "+monitorUnit)
		journal := "journalctl -b --no-pager -u " + monitorUnit
		if out := run(t, n, journal); !strings.Contains(out, "no history is kept") || !strings.Contains(out, "mkdir -m 0700 "+parent) {
			t.Errorf("without the folder:\n%s", out)
		}
		before := run(t, n, "systemctl show -P MemoryCurrent "+monitorUnit)
		run(t, n, "mkdir -m 0700 "+parent+" && systemctl restart "+monitorUnit)

		// A stop of the service writes what has been measured since the last minute.
		var shown history.View
		eventually(t, n, "a sample with a pod", func(ctx context.Context) (bool, string, error) {
			out, err := n.Run(ctx, "systemctl restart "+monitorUnit+" && "+monitorPath+" history --since=1h -o json")
			if err != nil {
				return false, out, err
			}
			if err := json.Unmarshal([]byte(out), &shown); err != nil {
				return false, out, err
			}
			if !slices.ContainsFunc(shown.Samples, func(s samples.Sample) bool { return s.Partition != nil }) {
				return false, out, nil
			}
			out, err = n.Run(ctx, "cat "+node.HistoryDir+"/tens-*.log")
			return strings.Contains(out, `"members":[{"uid":"`), out, err
		})
		last := shown.Samples[len(shown.Samples)-1]
		var services []string
		for _, g := range last.Groups {
			if g.Kube && g.WorkingSetBytes > 0 {
				services = append(services, g.Name)
			}
		}
		if !slices.ContainsFunc(services, func(name string) bool { return strings.HasSuffix(name, "/kubelet.service") }) ||
			!slices.ContainsFunc(services, func(name string) bool { return strings.HasSuffix(name, "/"+runtimeUnit(flavour)) }) {
			t.Errorf("services %q of %+v", services, last.Groups)
		}
		// Some minutes are no history to apply a limit by.
		if out := run(t, n, monitorPath+" recommend 2>&1 && echo applied || true"); !strings.Contains(out, "no section: the history has") || strings.Contains(out, "applied") {
			t.Errorf("after some minutes: %s", out)
		}
		var a recommend.Advice
		if err := json.Unmarshal([]byte(run(t, n, monitorPath+" recommend --force -o json 2>/dev/null")), &a); err != nil {
			t.Fatal(err)
		}
		if a.MemoryLimit == nil || a.MemoryLimit.Bytes < 64<<20 || a.KubeReserved == nil || a.SystemReserved.Memory.PeakBytes == 0 {
			t.Errorf("%+v", a)
		}
		if last.Up == 0 || last.Node == nil || last.Node.CPUs == 0 || last.Node.Pods == 0 || last.Partition == nil || last.Partition.Pods == nil || last.Partition.Cache == nil {
			t.Errorf("%+v, partition %+v", last, last.Partition)
		}
		run(t, n, monitorPath+" recommend --force | "+monitorPath+" try - --for=5m && "+monitorPath+" try --end")
		t.Logf("memory of the service: %s bytes without, %s with the history", before, run(t, n, "systemctl show -P MemoryCurrent "+monitorUnit))
	})
}
