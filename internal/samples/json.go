package samples

import (
	"cmp"
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

// partition is an element of the list.
type partition struct {
	Name  unitname.PartitionName `json:"name"`
	Slice string                 `json:"slice"`
	Usage
	Members []Member `json:"members,omitempty"`
}

// MarshalJSON writes the partitions as a list, the one that the sample is about first.
func (s Sample) MarshalJSON() ([]byte, error) {
	d := document{plain: plain(s)}
	if s.Partition != nil {
		name := cmp.Or(s.About, unitname.First)
		d.Partitions = append(d.Partitions, partition{name, name.Slice(), *s.Partition, s.Members})
	}
	for _, o := range s.Others {
		d.Partitions = append(d.Partitions, partition{o.Name, o.Name.Slice(), o.Usage, o.Members})
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads a sample. The result is about the system partition.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	*s = Sample(d.plain)
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if p.Name == unitname.First {
			s.Partition, s.Members = &p.Usage, p.Members
		} else {
			s.Others = append(s.Others, Other{p.Name, p.Usage, p.Members})
		}
	}
	return nil
}
