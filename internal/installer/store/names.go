// Package store keeps the files of the installer on a node: its folder, its state, and the files
// that it installs. The caller, which may be in a pod, and the host share it.
package store

import "path/filepath"

// The names in the folder.
const (
	// Program is this program.
	Program = "partition-installer"
	// Monitor is the new partition-monitor, which judges the node before it is installed.
	Monitor = "partition-monitor"
	// Section is the new section. By this name the programs take it for a node-partition.yaml.
	Section = "node-partition.yaml"

	state = "state.json"
)

// message returns the name of the file by which a call asks the host, and the host answers.
func message(id string) string { return "message-" + id + ".json" }

// temporary returns the name under which a file is written before it is complete. systemd ignores
// hidden files in the folders of units and of generators (hidden_or_backup_file,
// src/basic/path-util.c, 252).
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".installing")
}
