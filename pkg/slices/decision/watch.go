package decision

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// WatchFile holds what the generator has decided of files that it does not apply. It does not exist
// after a run that has applied what it found.
const WatchFile = config.StateDir + "/watch.json"

// Watch is the content of that file.
type Watch struct {
	// Refused is the error of the present configuration; empty if it is valid.
	Refused string `json:"refused,omitempty"`
	// Requested is the identity of the configuration for which systemd was asked to reload. No second
	// reload is asked for.
	Requested string `json:"asked,omitempty"`
}

// ReadWatch returns what was decided on the node at root. The zero value stands for a file that is
// missing or cannot be read: what is in it decides nothing but whether the same is said twice.
func ReadWatch(root string) Watch {
	var w Watch
	data, err := host.Root(root).ReadFile(WatchFile, maxBytes)
	if err != nil || json.Unmarshal(data, &w) != nil {
		return Watch{}
	}
	return w
}

// Write replaces the file, or removes it for the zero value.
func (w Watch) Write(root string) error {
	path := filepath.Join(root, WatchFile)
	if w == (Watch{}) {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return host.WriteState(path, w, 0o644)
}
