package recommend

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"nodepartition/internal/recommend"
	"nodepartition/internal/unitname"
)

// TestAdviceJSON: what is recommended for a partition is an element of a list, with its name.
func TestAdviceJSON(t *testing.T) {
	t.Parallel()
	a := Advice{
		Recommendation: recommend.Recommendation{
			ForPartition: recommend.ForPartition{
				MemoryLimit: &recommend.Figure{Bytes: 512 << 20}, NoSection: []string{}, Simulations: []recommend.Simulation{},
			},
			Leaks: []recommend.Leak{}, Warnings: []string{"a"},
		},
		Partition: unitname.System, Section: map[string]any{"memoryLimit": "512Mi"},
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	list, _ := got["partitions"].([]any)
	if len(list) != 1 || got["memoryLimit"] != nil || got["noSection"] != nil || got["simulations"] != nil || got["systemPartition"] == nil {
		t.Fatalf("%s", text)
	}
	element, _ := list[0].(map[string]any)
	limit, _ := element["memoryLimit"].(map[string]any)
	if element["name"] != "system" || element["slice"] != "kubepods-system.slice" || limit["bytes"] != float64(512<<20) {
		t.Errorf("%s", text)
	}
	var back Advice
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("%v: %+v; want %+v", err, back, a)
	}
}

// TestAdviceJSONPartition: the figures of a workload partition have its name, and its section is
// below workloadPartitions.
func TestAdviceJSONPartition(t *testing.T) {
	t.Parallel()
	a := Advice{Partition: "telemetry", Section: map[string]any{"memoryLimit": "512Mi"}}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Partitions []struct {
			Name  string `json:"name"`
			Slice string `json:"slice"`
		} `json:"partitions"`
		SystemPartition    map[string]any            `json:"systemPartition"`
		WorkloadPartitions map[string]map[string]any `json:"workloadPartitions"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Partitions) != 1 || got.Partitions[0].Name != "telemetry" || got.Partitions[0].Slice != "kubepods-telemetry.slice" ||
		got.SystemPartition != nil || got.WorkloadPartitions["telemetry"]["memoryLimit"] != "512Mi" {
		t.Errorf("%s", text)
	}
	var back Advice
	if err := json.Unmarshal(text, &back); err != nil || back.Partition != "telemetry" || !reflect.DeepEqual(back.Section, a.Section) {
		t.Errorf("%v: %+v", err, back)
	}
	// Without a section there is neither.
	a.Section = nil
	if text, err = json.Marshal(a); err != nil || strings.Contains(string(text), "workloadPartitions") {
		t.Errorf("%s, %v", text, err)
	}
}
