// Package store keeps the files of the fleet installer on a node: its folder, its state, and the
// files that it installs. Pod and host share it.
package store

import "path/filepath"

// Folder is the installer's folder on the host. The pod has it at another path.
const Folder = "/var/lib/node-partition/installer"

// The names in the folder.
const (
	// Program is this program.
	Program = "partition-installer"
	// Payload is the tree of the files to install.
	Payload = "payload"
	// Section is the section of the roll. By this name the programs take it for a
	// node-partition.yaml.
	Section = "node-partition.yaml"
	// Settings is the file of settings of the roll; it need not exist.
	Settings = "settings"
	// State is the state of the node.
	State = "state.json"
	// Backups is the folder of the files that a roll replaces.
	Backups = "backups"

	lock = "lock"
)

// Request returns the name of the file by which a pod asks for a stage. Each roll has another one,
// so that no pod reads or writes the file of another roll.
func Request(stage, roll string) string { return "request-" + stage + "-" + roll + ".json" }

// Result returns the name of the file by which the host answers.
func Result(stage, roll string) string { return "result-" + stage + "-" + roll + ".json" }

// messages matches all of these files.
var messages = []string{"request-*.json", "result-*.json"}

// temporary returns the name under which a file is written before it is complete. systemd ignores
// hidden files in the folders of units and of generators (hidden_or_backup_file,
// src/basic/path-util.c, 252).
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".installing")
}
