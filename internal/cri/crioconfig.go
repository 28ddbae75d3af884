package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/BurntSushi/toml"

	"node-partition.io/node-partition/internal/host"
)

// The files of CRI-O's configuration, without flags of its command line.
const (
	mainPath  = "/etc/crio/crio.conf"
	dropinDir = "/etc/crio/crio.conf.d"
)

const (
	// maxBytes far exceeds a configuration with all its comments, which has 30 KiB.
	maxBytes   = 1 << 20
	maxEntries = 1000
	maxDepth   = 8
)

// ConfiguredWorkload is an entry of CRI-O's table of workloads: a pod with the annotation gets the
// resources.
type ConfiguredWorkload struct {
	// Name is its key in the table, and File the file that has it.
	Name, File string
	// Annotation activates it, whatever its value.
	Annotation string
	// CPUs is the list of CPUs that it gives; empty for none.
	CPUs string
}

// ConfiguredWorkloads returns the table by name. It is empty where there is no configuration of
// CRI-O. A later file replaces an entry as a whole (UpdateFromPath, pkg/config, CRI-O 1.34).
func ConfiguredWorkloads(root host.Root) ([]ConfiguredWorkload, error) {
	files := []string{mainPath}
	below, err := walk(root, dropinDir, 0)
	if err != nil {
		return nil, err
	}
	table := map[string]ConfiguredWorkload{}
	for _, file := range append(files, below...) {
		data, err := root.ReadFile(file, maxBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = add(table, file, data)
		}
		if err != nil {
			return nil, err
		}
	}
	names := slices.Sorted(maps.Keys(table))
	list := make([]ConfiguredWorkload, 0, len(names))
	for _, name := range names {
		list = append(list, table[name])
	}
	return list, nil
}

// add adds the entries of a file.
func add(table map[string]ConfiguredWorkload, file string, data []byte) error {
	var document struct {
		CRIO struct {
			Runtime struct {
				Workloads map[string]struct {
					Annotation string `toml:"activation_annotation"`
					Resources  struct {
						CPUs string `toml:"cpuset"`
					} `toml:"resources"`
				} `toml:"workloads"`
			} `toml:"runtime"`
		} `toml:"crio"`
	}
	if err := toml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, w := range document.CRIO.Runtime.Workloads {
		table[name] = ConfiguredWorkload{Name: name, File: file, Annotation: w.Annotation, CPUs: w.Resources.CPUs}
	}
	return nil
}

// walk lists the files below a folder in the order in which CRI-O reads them.
func walk(root host.Root, dir string, depth int) ([]string, error) {
	entries, err := root.ReadDir(dir, maxEntries)
	if errors.Is(err, fs.ErrNotExist) || depth > maxDepth {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if !entry.IsDir() {
			files = append(files, name)
			continue
		}
		below, err := walk(root, name, depth+1)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}
