package recommend

import (
	"encoding/json"
	"reflect"
	"testing"

	"nodepartition/internal/recommend"
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
		SystemPartition: map[string]any{"memoryLimit": "512Mi"},
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
