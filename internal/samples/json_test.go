package samples

import (
	"encoding/json"
	"testing"
)

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
