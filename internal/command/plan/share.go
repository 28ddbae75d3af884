package plan

import (
	"fmt"
	"io"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/slices/config"
)

// Share is a memoryLimit that is a percentage of the node's memory, and what it comes to.
type Share struct {
	Partition partition.Name `json:"partition"`
	// Share is the percentage as it is written, such as 12%.
	Share string `json:"share"`
	// OfBytes is the memory that it is a share of: the node's in this boot.
	OfBytes uint64 `json:"ofBytes"`
	// Bound is memoryLimitMin or memoryLimitMax if that counts in place of Share.
	Bound            string `json:"bound,omitempty"`
	MemoryLimitBytes uint64 `json:"memoryLimitBytes"`
}

// sharesOfMemory returns the shares among the limits of partitions.
func sharesOfMemory(partitions []config.Partition) []Share {
	var list []Share
	for i := range partitions {
		p := &partitions[i]
		if s := p.Share; s != nil {
			list = append(list, Share{
				Partition: p.Name, Share: s.Text, OfBytes: s.OfBytes, Bound: s.Bound, MemoryLimitBytes: p.Limit,
			})
		}
	}
	return list
}

func writeShares(w io.Writer, p *Plan) {
	if len(p.Shares) == 0 {
		return
	}
	fmt.Fprintln(w, "\nPARTITION\tMEMORYLIMIT\tOF\tIS\tBY")
	for i := range p.Shares {
		s := &p.Shares[i]
		by := "-"
		if s.Bound != "" {
			by = s.Bound
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Partition, s.Share, text.RoundBytes(int64(s.OfBytes)),
			text.RoundBytes(int64(s.MemoryLimitBytes)), by)
	}
}
