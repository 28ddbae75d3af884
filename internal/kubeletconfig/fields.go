package kubeletconfig

import (
	"encoding/json"
	"fmt"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
)

// LoadFiles reads the files of a kubelet that was started with --config=file and --config-dir=dir.
// An empty path means that the flag is not given: the kubelet then reads no such file, and neither
// does LoadFiles. More files are merged over the first like drop-ins. LoadFiles reads neither
// OverridePath nor TrialPath, and does not decode Kubelet.
func LoadFiles(root hostfs.FS, dir string, files ...string) (*Config, error) {
	l := loader{root: root, left: maxTotalBytes, config: &Config{}, hasMain: len(files) > 0}
	for _, name := range files {
		if err := l.add(l.read(name)); err != nil {
			return &Config{Looked: l.config.Looked}, err
		}
	}
	if dir != "" {
		if err := l.walk(dir, 0); err != nil {
			return &Config{Looked: l.config.Looked}, err
		}
	}
	if err := l.merge(); err != nil {
		return &Config{Looked: l.config.Looked}, err
	}
	return l.config, nil
}

// Fields returns the named fields of the merged configuration. Load decodes the fields of Kubelet;
// Fields is for a program that needs others. setDefaults is called with the fields of the main
// file, if there is one, before the drop-ins are merged over them.
func (c *Config) Fields(
	names []string,
	setDefaults func(main map[string]json.RawMessage) error,
) (map[string]json.RawMessage, error) {
	if len(c.docs) == 0 {
		return nil, nil
	}
	first := c.docs[0]
	base := first.only(names)
	if c.hasMain {
		if err := setDefaults(base); err != nil {
			return nil, fmt.Errorf("%s: %w", first.path, err)
		}
	}
	return mergeOver(base, first.path, c.docs[1:], names)
}

// Decode decodes a field that Fields has returned. The error names the last file that sets the
// field.
func (c *Config) Decode(name string, raw json.RawMessage, value any) error {
	if err := json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("%s: %s: %s has the wrong type; see the kubelet's KubeletConfiguration (v1beta1)",
			c.FileWith(name), name, oneline.ASCII(string(raw)))
	}
	return nil
}
