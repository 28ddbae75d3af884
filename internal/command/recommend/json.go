package recommend

import (
	"encoding/json"

	"nodepartition/internal/recommend"
	"nodepartition/internal/unitname"
)

// document is the JSON of an Advice.
type document struct {
	recommend.Recommendation
	Partitions []partition `json:"partitions"`
	// SystemPartition is the present section with the recommended values. It is absent without any.
	SystemPartition map[string]any `json:"systemPartition,omitempty"`
}

// partition holds the figures of one partition.
type partition struct {
	Name  unitname.PartitionName `json:"name"`
	Slice string                 `json:"slice"`
	recommend.ForPartition
}

// MarshalJSON writes the figures of the partition as an element of a list.
func (a Advice) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{
		a.Recommendation, []partition{{unitname.First, unitname.First.Slice(), a.ForPartition}}, a.SystemPartition,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Advice) UnmarshalJSON(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	a.Recommendation, a.SystemPartition = d.Recommendation, d.SystemPartition
	for i := range d.Partitions {
		if d.Partitions[i].Name == unitname.First {
			a.ForPartition = d.Partitions[i].ForPartition
		}
	}
	return nil
}
