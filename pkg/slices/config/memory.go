package config

import (
	"encoding/json"
	"fmt"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/meminfo"
)

// MemoryFile holds BootedMemory of this boot. The generator writes it with the first units that
// have a share, and a reboot removes it, like everything in /run.
const MemoryFile = StateDir + "/memory.json"

// BootedMemory is the content of MemoryFile.
type BootedMemory struct {
	// TotalBytes is the memory of the node, as meminfo.Total returned it.
	TotalBytes int64 `json:"totalBytes"`
}

// BootMemory returns the memory in bytes that a share of the node at root is of: the memory that
// the node had when a share was first applied in this boot, or the memory of now before that. A
// kernel that is given memory, or returns some to a hypervisor, changes MemTotal while it runs, and
// a reload of systemd for another reason must not change a limit by that.
//
// A file that cannot be read counts as missing: the generator then writes it again.
func BootMemory(root hostfs.FS) (int64, error) {
	if data, err := root.ReadFile(MemoryFile, maxFactBytes); err == nil {
		var kept BootedMemory
		//guard: memory that was added counts from the next boot
		if json.Unmarshal(data, &kept) == nil && kept.TotalBytes > 0 {
			return kept.TotalBytes, nil
		}
	}
	return meminfo.Total(root)
}

// ShareBytes returns the memory that the shares of the configuration are of, in bytes; 0 if it has
// none.
func (c *Config) ShareBytes() int64 {
	for i := range c.Partitions {
		if s := c.Partitions[i].Share; s != nil {
			return s.OfBytes
		}
	}
	return 0
}

// String says what the limit comes to, such as "12% of 8388608000 bytes, by memoryLimitMin".
func (s *Share) String() string {
	text := fmt.Sprintf("%s of %d bytes", s.Text, s.OfBytes)
	if s.Bound != "" {
		text += ", by " + s.Bound
	}
	return text
}
