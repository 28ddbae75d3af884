package samples

import (
	"encoding/json"

	"nodepartition/internal/unitname"
)

// plain is a Sample that encoding/json handles by its tags.
type plain Sample

// document is the JSON of a Sample.
type document struct {
	plain
	Partitions []partition `json:"partitions,omitempty"`
}

// earlier holds the fields in which monitors before the list partitions wrote the only one.
type earlier struct {
	Partition *Usage   `json:"partition"`
	Members   []Member `json:"members"`
}

// partition is an element of the list.
type partition struct {
	Name  unitname.PartitionName `json:"name"`
	Slice string                 `json:"slice"`
	Usage
	Members []Member `json:"members,omitempty"`
}

// MarshalJSON writes the partitions as a list.
func (s Sample) MarshalJSON() ([]byte, error) {
	d := document{plain: plain(s)}
	if s.Partition != nil {
		d.Partitions = []partition{{unitname.First, unitname.First.Slice(), *s.Partition, s.Members}}
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads a sample in the present form, and in the earlier one. It leaves out all but
// the system partition.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var d struct {
		document
		earlier
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	*s = Sample(d.plain)
	old := d.earlier
	s.Partition, s.Members = old.Partition, old.Members
	for i := range d.Partitions {
		if p := &d.Partitions[i]; p.Name == unitname.First {
			s.Partition, s.Members = &p.Usage, p.Members
		}
	}
	return nil
}
