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
	"nodepartition/tests/fakenode"
)

const mebi = 1 << 20

// shownFor returns what history shows of a node: the table and JSON. since is before now.
func shownFor(t *testing.T, n *fakenode.Node, since time.Duration, at time.Time) (table string, v View) {
	t.Helper()
	now := time.Now()
	read, err := Read(t.Context(), Options{Dir: n.Host().Path(node.HistoryDir), Since: now.Add(-since), Until: now, At: at})
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
