package samples

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/unitname"
)

const telemetry unitname.PartitionName = "telemetry"

// with returns the sample of a minute with another partition, whose usage in MiB is given.
func with(s Sample, name unitname.PartitionName, mebi uint64, members ...Member) Sample {
	usage := *minute(0, mebi).Partition
	usage.PeakTime = s.Time
	s.Others = append(slices.Clip(s.Others), Other{Name: name, Usage: usage, Members: members})
	return s
}

// sizes lists the peaks of a partition in MiB, 0 for a sample without it.
func sizes(list []Sample) string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		size := uint64(0)
		if s.Partition != nil {
			size = s.Partition.UsedPeakBytes >> 20
		}
		out = append(out, fmt.Sprint(size))
	}
	return strings.Join(out, " ")
}

// TestRingPartitions: each partition has its own usage, and the pods of the minute in which it used
// most. The history of one that is removed stays, and continues when it is added again.
func TestRingPartitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	for n := 1; n < 30; n++ {
		s := minute(n, 100+uint64(n))
		if n < 10 || n >= 20 { // it is removed for ten minutes
			s = with(s, telemetry, 50-uint64(n), Member{Name: fmt.Sprintf("agent-%d", n), UsedBytes: 7})
		}
		s.Members = []Member{{Name: fmt.Sprintf("dns-%d", n)}}
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
		if n == 15 || n == 24 { // a restart goes on with both
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = open(t, dir)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if names := h.Partitions; !slices.Equal(names, []unitname.PartitionName{unitname.System, telemetry}) {
		t.Errorf("%q", names)
	}
	system, of := h.Of(unitname.System), h.Of(telemetry)
	if got := sizes(system.Tens); got != "109 119 129" || system.Tens[0].Members[0].Name != "dns-9" {
		t.Errorf("system: %s, %+v", got, system.Tens[0].Members)
	}
	if got := sizes(of.Tens); got != "49 0 30" || of.Tens[0].Members[0].Name != "agent-1" || of.Tens[1].Members != nil || of.Tens[2].Members[0].Name != "agent-20" {
		t.Errorf("telemetry: %s, %+v", got, of.Tens)
	}
	if got := sizes(of.Minutes[7:20]); got != "42 41 0 0 0 0 0 0 0 0 0 0 30" || of.Minutes[0].Groups == nil {
		t.Errorf("telemetry by the minute: %s", got)
	}
	if got := sizes(Fold(of.Between(start, start.Add(time.Hour)), time.Hour)); got != "49" {
		t.Errorf("telemetry by the hour: %s", got)
	}
	// In JSON it is the only partition, with its name.
	text, err := json.Marshal(of.Tens[0])
	if err != nil || !strings.Contains(string(text), `"partitions":[{"name":"telemetry","slice":"kubepods-telemetry.slice","usedPeakBytes":`) ||
		strings.Contains(string(text), "system\"") {
		t.Errorf("%s, %v", text, err)
	}
	if got := sizes(h.Of("batch").Tens); got != "0 0 0" {
		t.Errorf("a partition that it does not have: %s", got)
	}
}

// TestRingUpgrade: a monitor goes on in the files of one that knew the system partition alone, and
// the other way around: neither loses a sample of the system partition.
func TestRingUpgrade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// As that monitor wrote it: one partition in the list.
	const old = `{"time":"2026-11-09T00:01:00Z","seconds":60,"boot":"0a1b2c3d","groups":[{"name":"system.slice","workingSetBytes":314572800,"milliCPU":120}],` +
		`"partitions":[{"name":"system","slice":"kubepods-system.slice","usedPeakBytes":104857600,"usedLowBytes":104857600,"peakTime":"2026-11-09T00:01:00Z",` +
		`"currentPeakBytes":209715200,"limitBytes":1073741824,"hardBytes":54525952}]}`
	var s Sample
	if err := json.Unmarshal([]byte(old), &s); err != nil {
		t.Fatal(err)
	}
	line, err := appendLine(nil, s)
	if err != nil || string(line[checksumDigits+1:]) != old+"\n" {
		t.Fatalf("without another partition a line is not as before: %v\n%s", err, line)
	}
	for _, name := range []string{minutes.file(1), tens.file(1)} {
		if err := os.WriteFile(filepath.Join(dir, name), line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir)
	for n := 2; n < 12; n++ {
		if err := r.Add(with(minute(n, 200), telemetry, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if got := sizes(h.Of(unitname.System).Tens); got != "200 200" || h.Tens[0].Seconds != 9*60 || h.Broken != 0 {
		t.Errorf("system: %s, %+v", got, h.Tens[0])
	}
	if got := sizes(h.Of(telemetry).Minutes); got != "0 50 50 50 50 50 50 50 50 50 50" {
		t.Errorf("telemetry: %s", got)
	}
	// What that monitor reads of a line of this one: its list has the system partition, too.
	text, err := json.Marshal(h.Tens[1])
	var read struct {
		Partitions []struct {
			Name          string `json:"name"`
			UsedPeakBytes uint64 `json:"usedPeakBytes"`
		} `json:"partitions"`
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil || len(read.Partitions) != 2 || read.Partitions[0].Name != "system" || read.Partitions[0].UsedPeakBytes != 200<<20 {
		t.Errorf("%+v, %v", read, err)
	}
}

// TestReadClockOfOthers: the times of the other partitions follow a clock that was set, too.
func TestReadClockOfOthers(t *testing.T) {
	t.Parallel()
	early := with(minute(0, 100), telemetry, 50)
	early.Time, early.Up = time.Unix(600, 0).UTC(), 60
	early.Partition.PeakTime, early.Others[0].PeakTime = early.Time, early.Time
	late := with(minute(1, 100), telemetry, 50)
	late.Up = 120
	h := History{Minutes: []Sample{early, late}}
	h.retime()
	for _, name := range []unitname.PartitionName{unitname.System, telemetry} {
		if at := h.Of(name).Minutes[0].Partition.PeakTime; !at.Equal(start) {
			t.Errorf("%s: %s", name, at)
		}
	}
}

// pods returns pods with names of usual length, of which the first use most.
func pods(namespace string, n int) []Member {
	list := make([]Member, 0, n)
	for i := range n {
		list = append(list, Member{
			UID: "0a1b2c3d-0000-4000-8000-000000000000", Namespace: namespace, Name: fmt.Sprintf("collector-5d4f8c7b9d-%05d", i),
			Containers: "0a1b2c3d", QoS: "Burstable", Priority: 1000, RequestBytes: 64 << 20,
			WorkingSetBytes: uint64(900-i) << 20, UsedBytes: uint64(900-i) << 20,
		})
	}
	return list
}

// full returns a sample with as many partitions and pods as a node can have.
func full(n int) Sample {
	s := minute(n, 100)
	s.Members = pods("kube-system", MaxMembers)
	s.Up = uint64(n * 60)
	s.Node = &Node{CPUs: 64, MemoryBytes: 1 << 38, PageBytes: 4096, Pods: 500}
	for i := range maxOthers {
		s = with(s, unitname.PartitionName(fmt.Sprintf("partition-%02d", i)), 50, pods("tenant", MaxMembers)...)
		o := &s.Others[i]
		o.Cache, o.Pods = &Cache{1 << 30, 1 << 30, 1 << 30}, &Pods{Members: 32, RequestBytes: 1 << 30, AllUsedBytes: 1 << 30, AllWorkingSetBytes: 1 << 30}
	}
	return s
}

// TestShare: the pods of the other partitions share one room. The system partition has its own, and
// one with few pods leaves its part to the rest.
func TestShare(t *testing.T) {
	t.Parallel()
	s := full(0)
	s.bound()
	sum := 0
	for i := range s.Others {
		o := &s.Others[i]
		sum += len(o.Members)
		if len(o.Members) != 6 || o.MembersLeft != MaxMembers-6 || o.Members[0].UsedBytes != 900<<20 {
			t.Errorf("%s: %d pods, %d left out", o.Name, len(o.Members), o.MembersLeft)
		}
	}
	if len(s.Members) != MaxMembers || sum > sharedMembers || s.Partition.MembersLeft != 0 {
		t.Errorf("%d pods of system, %d of the others", len(s.Members), sum)
	}
	s.bound() // what is read again is not cut again
	if s.Others[0].MembersLeft != MaxMembers-6 {
		t.Errorf("%d left out", s.Others[0].MembersLeft)
	}
	few := with(with(with(with(minute(0, 1), "a", 1, pods("a", 2)...), "b", 1, pods("b", 40)...), "c", 1, pods("c", 40)...), "d", 1, pods("d", 40)...)
	few.bound()
	if len(few.Others[0].Members) != 2 || len(few.Others[1].Members) != 31 || few.Others[3].MembersLeft != 1 {
		t.Errorf("%d, %d, %d left out", len(few.Others[0].Members), len(few.Others[1].Members), few.Others[3].MembersLeft)
	}
	// Names that come and go within ten minutes do not grow a sample, and the present ones stay.
	many := minute(0, 1)
	for n := range 10 {
		next := minute(n, 1)
		for i := range maxOthers {
			next = with(next, unitname.PartitionName(fmt.Sprintf("p%d-%d", n, i)), 1)
		}
		many = merge(many, next)
	}
	if len(many.Others) != maxOthers || many.Others[0].Name != "p9-0" {
		t.Errorf("%d partitions, %s", len(many.Others), many.Others[0].Name)
	}
}

// TestRingBounded: on a node with as many partitions and pods as there can be, the history has a
// bounded size, and a week at least. docs/history.md has the figures.
func TestRingBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	const days, most = 17, 84 << 20
	for n := 0; n < days*24*60; n += 10 { // a line in both series
		if err := r.Add(full(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	h := read(t, dir)
	first, last := h.Tens[0].Time, h.Tens[len(h.Tens)-1].Time
	if size > most || last.Sub(first) < 8*24*time.Hour || len(h.Minutes) < 24*60 || h.Broken != 0 {
		t.Errorf("%d MiB, ten minutes of %s, %d minutes", size>>20, last.Sub(first), len(h.Minutes))
	}
	t.Logf("%d MiB, ten minutes of %s, %d minutes", size>>20, last.Sub(first), len(h.Minutes))
}

// TestLongestLine: the longest sample is written, and read.
func TestLongestLine(t *testing.T) {
	t.Parallel()
	s := full(0)
	long := func(n int) string { return strings.Repeat("n", n) }
	name := func(list []Member) {
		for i := range list {
			list[i].Namespace, list[i].Name = long(63), long(253)
		}
	}
	evicted := slices.Repeat([]string{long(63) + "/" + long(253)}, maxEvicted)
	name(s.Members)
	s.Partition.Evicted = evicted
	for i := range s.Others {
		name(s.Others[i].Members)
		s.Others[i].Evicted = evicted
	}
	dir := t.TempDir()
	r := open(t, dir)
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if h := read(t, dir); len(h.Tens) != 1 || len(h.Tens[0].Others) != maxOthers || h.Broken != 0 {
		t.Errorf("%d samples, %d broken", len(h.Tens), h.Broken)
	}
}
