package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

// Identity returns a digest of what the operator has written: the sections, the settings, the gate
// and the off switch. Two configurations with the same identity ask for the same. Facts of the node
// have no part in it, because they may change between two readings, and neither has the file that a
// section is in: "partition-monitor keep" moves it.
func (c *Config) Identity() string {
	settings := c.Kubelet.Partition
	settings.Watch = "" // how an edit is noticed, and nothing to apply
	// The fields are maps, strings and booleans, which JSON can always express. It sorts the keys.
	text, _ := json.Marshal(struct {
		Off, Gate bool
		Section   section
		Partition kubeletconfig.PartitionSettings
		Services  kubeletconfig.ServiceSettings
		// Left out without one, as in the digest of earlier versions.
		Workloads sections                   `json:",omitempty"`
		Host      kubeletconfig.HostSettings `json:",omitzero"`
	}{
		c.Off, c.Kubelet.Kubelet.FeatureGates[Gate], c.sections[unitname.System],
		settings, c.Kubelet.Services, c.sections.workloads(), c.Kubelet.Host,
	})
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}
