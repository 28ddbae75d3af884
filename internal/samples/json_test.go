package samples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// oldLine is a line that a monitor before the list of partitions wrote, as it is on disk.
const oldLine = `1ab981af {"time":"2026-11-08T23:50:00Z","seconds":600,"boot":"0a1b2c3d","up":3600,` +
	`"node":{"cpus":4,"memoryBytes":8589934592,"pageBytes":4096,"pods":12},` +
	`"partition":{"usedPeakBytes":104857600,"usedLowBytes":94371840,"peakTime":"2026-11-08T23:47:00Z","currentPeakBytes":209715200,` +
	`"limitBytes":536870912,"hardBytes":33554432,"evicted":["kube-system/leaker"],"killedAtLimit":1},` +
	`"groups":[{"name":"system.slice","workingSetBytes":1048576,"milliCPU":20}],` +
	`"members":[{"uid":"1","namespace":"kube-system","name":"leaker","qos":"Burstable","workingSetBytes":5,"usedBytes":7}]}`

// TestReadOldLine: a line of an earlier monitor has the content of one that this monitor writes.
func TestReadOldLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tens-000001.log"), []byte(oldLine+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if h.Broken != 0 || len(h.Tens) != 1 {
		t.Fatalf("%+v", h)
	}
	at := time.Date(2026, 11, 8, 23, 50, 0, 0, time.UTC)
	want := Sample{
		Time: at, Seconds: 600, Boot: "0a1b2c3d", Up: 3600, Node: &Node{CPUs: 4, MemoryBytes: 8 << 30, PageBytes: 4096, Pods: 12},
		Partition: &Usage{
			UsedPeakBytes: 100 << 20, UsedLowBytes: 90 << 20, PeakTime: at.Add(-3 * time.Minute), CurrentPeakBytes: 200 << 20,
			LimitBytes: 512 << 20, HardBytes: 32 << 20, Evicted: []string{"kube-system/leaker"}, KilledAtLimit: 1,
		},
		Groups:  []Group{{Name: "system.slice", WorkingSetBytes: 1 << 20, MilliCPU: 20}},
		Members: []Member{{UID: "1", Namespace: "kube-system", Name: "leaker", QoS: "Burstable", WorkingSetBytes: 5, UsedBytes: 7}},
	}
	if !reflect.DeepEqual(h.Tens[0], want) {
		t.Errorf("%+v; want %+v", h.Tens[0], want)
	}
	text, err := json.Marshal(h.Tens[0])
	if err != nil {
		t.Fatal(err)
	}
	var again Sample
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%v: %+v; want %+v", err, again, want)
	}
}

// TestSampleJSON: the partitions are a list of elements with a name and a slice. One that this
// program does not know does not end up in the system partition.
func TestSampleJSON(t *testing.T) {
	t.Parallel()
	s := Sample{Boot: "0a1b2c3d", Partition: &Usage{UsedPeakBytes: 7, LimitBytes: 9}, Members: []Member{{Name: "etcd"}}}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	list, _ := got["partitions"].([]any)
	if len(list) != 1 || got["partition"] != nil || got["members"] != nil {
		t.Fatalf("%s", text)
	}
	element, _ := list[0].(map[string]any)
	members, _ := element["members"].([]any)
	if element["name"] != "system" || element["slice"] != "kubepods-system.slice" || element["usedPeakBytes"] != 7.0 || len(members) != 1 {
		t.Errorf("%s", text)
	}
	const two = `{"partitions":[{"name":"telemetry","usedPeakBytes":1,"members":[{"name":"a"}]},{"name":"system","usedPeakBytes":2},{"name":"batch","usedPeakBytes":3}]}`
	var back Sample
	if err := json.Unmarshal([]byte(two), &back); err != nil || back.Partition == nil || back.Partition.UsedPeakBytes != 2 || back.Members != nil {
		t.Errorf("%v: %+v", err, back)
	}
	if err := json.Unmarshal([]byte(`{"partitions":[{"name":"telemetry","usedPeakBytes":1}]}`), &back); err != nil || back.Partition != nil {
		t.Errorf("%v: %+v", err, back)
	}
}
