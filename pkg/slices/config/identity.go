package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

// Identity returns a digest of what the operator has written: the sections, the settings, the gate
// and the off switch. Two configurations with the same identity ask for the same. Facts of the node
// have no part in it, because they may change between two readings, and neither has the file that a
// section is in: "partition-monitor keep" moves it.
func (c *Config) Identity() string {
	settings := map[string]string{}
	for _, key := range kubeletconfig.SettingKeys() {
		// How an edit is noticed is nothing to apply.
		if value := c.Kubelet.Settings[key]; value != "" && key != kubeletconfig.WatchKey {
			settings[key] = value
		}
	}
	// The fields are maps, strings and booleans, which JSON can always express. It sorts the keys.
	text, _ := json.Marshal(struct {
		Off, Gate bool
		Section   section
		Workloads sections
		Settings  map[string]string
	}{
		c.Off, c.Kubelet.Kubelet.FeatureGates[Gate], c.sections[partition.System],
		c.sections.workloads(), settings,
	})
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}

// SectionDigest returns the SHA-256 of the sections, in hexadecimal digits: of the bytes of
// node-partition.yaml, or of a trial's file. Sections in the kubelet's own configuration may come
// from several files with other fields. Their digest is of one JSON object without spaces, whose
// keys are sorted, with the section of each partition by its name. It is empty without a section.
//
// A program that compares files finds the file that was read. Identity would be the same for
// another file that asks for the same.
func (c *Config) SectionDigest() string {
	if len(c.sections) == 0 {
		return ""
	}
	if digest := c.Kubelet.OverrideDigest(); digest != "" {
		return digest
	}
	text, _ := json.Marshal(c.sections) // maps of merged JSON, whose keys are sorted
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}
