package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/tests/fakenode"
)

const mebi = 1 << 20

// shownFor returns what history shows of a node: the table and JSON. since is before now.
func shownFor(t *testing.T, n *fakenode.Node, since time.Duration, at time.Time) (table string, v View) {
	t.Helper()
	return shownOf(t, n, "", since, at)
}

// shownOf is shownFor with a partition.
func shownOf(t *testing.T, n *fakenode.Node, name unitname.PartitionName, since time.Duration, at time.Time) (table string, v View) {
	t.Helper()
	now := time.Now()
	read, err := Read(t.Context(), Options{Dir: n.Host().Path(node.HistoryDir), Partition: name, Since: now.Add(-since), Until: now, At: at})
	if err != nil {
		t.Fatal(err)
	}
	var rows, document bytes.Buffer
	if err := errors.Join(WriteTable(&rows, read), WriteJSON(&document, read), json.Unmarshal(document.Bytes(), &v)); err != nil {
		t.Fatalf("%v:\n%s", err, &document)
	}
	return rows.String(), v
}

// TestHistoryNone: without a history the error says how to get one.
func TestHistoryNone(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	_, err := Read(t.Context(), Options{Dir: n.Host().Path(node.HistoryDir)})
	for _, want := range []string{"no history in " + n.Root + "/var/lib/node-partition/history", "mkdir -m 0700 /var/lib/node-partition,", "--history into PARTITION_MONITOR_ARGS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestHistoryShown: the table of the last hours, a moment by the minute with its pods, and JSON.
func TestHistoryShown(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	const length = 30 * time.Hour
	event := length - 95*time.Minute
	begin := n.Record(length, true, func(since time.Duration, s *samples.Sample) {
		if since == event {
			s.Partition.Evicted, s.Partition.KilledAtLimit = []string{"kube-system/col\x1blector"}, 2
		}
		if since > length-time.Hour {
			s.Boot = "ffffffff"
		}
	})
	stdout, _ := shownFor(t, n, 6*time.Hour, time.Time{})
	for _, want := range []string{"UNTIL", "2048Mi", "evicted kube-system/col?lector, the kernel killed 2 at the limit", "the node was started", "150Mi", "250Mi"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if rows := strings.Count(stdout, "\n"); rows < 36 || rows > 41 {
		t.Errorf("%d rows for six hours in ten minutes:\n%s", rows, stdout)
	}
	at := begin.Add(event).Local()
	minute, err := ParseTime(at.Format("2006-01-02 15:04"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stdout, _ = shownFor(t, n, 0, minute)
	if !strings.Contains(stdout, at.Format("2006-01-02 15:04")+" ") || strings.Count(stdout, "2048Mi") != 10 || !strings.Contains(stdout, "collector") {
		t.Errorf("the minutes around %s:\n%s", at, stdout)
	}
	_, v := shownFor(t, n, 30*time.Minute, time.Time{})
	if len(v.Samples) < 28 || len(v.Samples) > 30 || v.Samples[0].Seconds != 60 || v.Samples[0].Partition.LimitBytes != 2048*mebi {
		t.Errorf("%d samples, %+v", len(v.Samples), v)
	}
	// A day and more is by the hour.
	_, v = shownFor(t, n, 29*time.Hour, time.Time{})
	if len(v.Samples) < 29 || len(v.Samples) > 33 {
		t.Errorf("%d samples", len(v.Samples))
	}
	if stdout, _ = shownFor(t, n, 0, time.Date(2020, 1, 1, 0, 0, 0, 0, time.Local)); !strings.Contains(stdout, "No samples from 2019-12-31") {
		t.Errorf("%s", stdout)
	}
}

// TestHistoryPartition: another partition is shown with its own usage, events and pods, also after
// it was removed. What is shown of the system partition is the same beside it.
func TestHistoryPartition(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Hour
	removed := length - time.Hour
	telemetry := func(since time.Duration, s *samples.Sample) {
		if since > removed {
			return
		}
		usage := *s.Partition
		usage.UsedPeakBytes, usage.LimitBytes, usage.Evicted = 77*mebi, 99*mebi, []string{"logs/agent"}
		s.Others = []samples.Other{{Name: "telemetry", Usage: usage, Members: []samples.Member{{Namespace: "logs", Name: "agent"}}}}
	}
	var alone, n *fakenode.Node
	var begin time.Time
	for same := false; !same; { // another minute may begin between the two
		alone, n = fakenode.New(t, fakenode.Valid("kube-system")), fakenode.New(t, fakenode.Valid("kube-system"))
		begin = n.Record(length, true, telemetry)
		same = alone.Record(length, true, nil).Equal(begin)
	}
	at := begin.Add(removed - 20*time.Minute)
	table, v := shownOf(t, n, "telemetry", length-time.Minute, time.Time{})
	if !strings.HasPrefix(table, "Partition telemetry\n\nUNTIL ") || strings.Count(table, "77Mi") < 11 || strings.Count(table, "no partition") < 5 || strings.Contains(table, "2048Mi") {
		t.Errorf("%s", table)
	}
	if v.Partition != "telemetry" {
		t.Errorf("%+v", v)
	}
	table, v = shownOf(t, n, "telemetry", 0, at)
	if !strings.Contains(table, "The pods of partition telemetry at ") || !strings.Contains(table, "evicted logs/agent") || len(v.Partitions) != 1 ||
		v.Partitions[0].Name != "telemetry" || v.Partitions[0].Slice != "kubepods-telemetry.slice" || v.Partitions[0].Members[0].Name != "agent" {
		t.Errorf("%+v\n%s", v.Partitions, table)
	}
	// Without the flag the output is as on a node that has the system partition alone.
	beside, _ := shownOf(t, n, "", 0, at)
	if without, _ := shownOf(t, alone, "", 0, at); beside != without || strings.Contains(beside, "telemetry") {
		t.Errorf("%s\nwithout the other:\n%s", beside, without)
	}
	if _, err := Read(t.Context(), Options{Dir: n.Host().Path(node.HistoryDir), Partition: "te\x1blemetry"}); err == nil ||
		!strings.Contains(err.Error(), `no partition "te\x1blemetry"; it has system, telemetry`) {
		t.Errorf("%v", err)
	}
	// A node without a system partition says so.
	n = fakenode.New(t, fakenode.Valid("kube-system"))
	n.Record(length, true, func(since time.Duration, s *samples.Sample) {
		telemetry(since, s)
		s.Partition, s.Members = nil, nil
	})
	if table, _ = shownFor(t, n, time.Hour, time.Time{}); !strings.Contains(table, "no system partition. --partition=NAME shows another one: telemetry.") || !strings.Contains(table, "no partition") {
		t.Errorf("%s", table)
	}
}
