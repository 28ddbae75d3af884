package state

// Validation is the output of partition-monitor validate. Its JSON is for scripts: new versions add
// fields and do not change them.
type Validation struct {
	File string `json:"file"`
	// As says what the file was taken for: node-partition.yaml, the kubelet's own configuration, or
	// spec.section of a NodePartition. It is empty for a file that cannot be read as one of these.
	As string `json:"as,omitempty"`
	// AsItHas is the field by which it was taken for the kubelet's own configuration; empty if another
	// thing tells.
	AsItHas string `json:"asItHas,omitempty"`
	Valid   bool   `json:"valid"`
	// Problems lists the reasons why the generator refuses the file.
	Problems []Problem `json:"problems"`
	// Warnings lists remarks on what is valid all the same.
	Warnings []Problem `json:"warnings"`
	// Partitions lists the partitions of a valid file, and Left has what they leave for user pods; nil
	// for a file that is not valid, and for a node whose size is not known.
	Partitions []Section `json:"partitions"`
	Left       *Left     `json:"left,omitempty"`
	// NotChecked lists what was left out, and why.
	NotChecked []string `json:"notChecked"`
}

// Problem is a problem or a remark.
type Problem struct {
	// File is the file to change, nearly always the one that is validated.
	File string `json:"file"`
	// Field is the path of the field, such as systemPartition.memoryLimit; empty for the file as a
	// whole.
	Field string `json:"field"`
	// Message has the value that was found, and what is wanted.
	Message string `json:"message"`
}

// Section is a valid section of a partition.
type Section struct {
	Name string `json:"name"`
	// MemoryLimitBytes is absent without a limit, and for a share of a node whose memory is not
	// known.
	MemoryLimitBytes uint64 `json:"memoryLimitBytes,omitempty"`
	// Share is the limit as it is written, such as 12%; empty for a quantity.
	Share string `json:"share,omitempty"`
	// ShareOfBytes is the memory that Share is of, if it is known.
	ShareOfBytes uint64 `json:"shareOfBytes,omitempty"`
	// Bound is memoryLimitMin or memoryLimitMax if that counts in place of Share.
	Bound string `json:"bound,omitempty"`
	// EvictsBelowBytes is the nearest threshold of available memory, below which pods are evicted;
	// absent without a limit that is known.
	EvictsBelowBytes uint64   `json:"evictsBelowBytes,omitempty"`
	CPUs             string   `json:"cpuset,omitempty"`
	Namespaces       []string `json:"namespaces"`
}

// Left holds what partitions, reservations and the eviction threshold leave of a node, as plan
// computes it.
type Left struct {
	MemoryBytes   int64 `json:"memoryBytes"`
	OfMemoryBytes int64 `json:"ofMemoryBytes"`
	// MilliCPU is in thousandths of a CPU. User pods may use CPUs of a partition, too, unless it has
	// them exclusively.
	MilliCPU int64 `json:"milliCPU"`
}
