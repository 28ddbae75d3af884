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
	// SystemPartition or WorkloadPartitions has the present section with the recommended values. They
	// are absent without any.
	SystemPartition    map[string]any                            `json:"systemPartition,omitempty"`
	WorkloadPartitions map[unitname.PartitionName]map[string]any `json:"workloadPartitions,omitempty"`
}

// partition holds the figures of one partition.
type partition struct {
	Name  unitname.PartitionName `json:"name"`
	Slice string                 `json:"slice"`
	recommend.ForPartition
}

// MarshalJSON writes the figures of the partition as an element of a list.
func (a Advice) MarshalJSON() ([]byte, error) {
	d := document{
		Recommendation: a.Recommendation,
		Partitions:     []partition{{a.Partition, a.Partition.Slice(), a.ForPartition}},
	}
	switch {
	case a.isSystem():
		d.SystemPartition = a.Section
	case a.Section != nil:
		d.WorkloadPartitions = map[unitname.PartitionName]map[string]any{a.Partition: a.Section}
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Advice) UnmarshalJSON(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	a.Recommendation, a.Section = d.Recommendation, d.SystemPartition
	if len(d.Partitions) > 0 {
		a.Partition, a.ForPartition = d.Partitions[0].Name, d.Partitions[0].ForPartition
	}
	if !a.isSystem() {
		a.Section = d.WorkloadPartitions[a.Partition]
	}
	return nil
}
