package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
)

// KubeletOrigin is the origin of the kubelet's settings.
type KubeletOrigin struct {
	// Files lists the configuration files that were read, in the order of merging.
	Files []string `json:"files"`
	// KubeletPID is the process whose command line was read. It is absent if none was.
	KubeletPID int `json:"kubeletPID,omitempty"`
}

// KubeletSettings holds the settings of a kubelet, and the section of the partition.
type KubeletSettings struct {
	// Kubelet holds the fields of its configuration, with its flags.
	Kubelet budget.Kubelet
	// IgnoreEviction is the flag of that name.
	IgnoreEviction bool
	// RootDir is on the file system whose size is the capacity of storage.
	RootDir string
	// From is the origin of the settings.
	From KubeletOrigin
	// Config is the configuration that the settings are from: the one of the running kubelet, with its
	// flags, or else that of the files.
	Config *kubeletconfig.Merged
	// Section is the configuration that has the section.
	Section *kubeletconfig.Merged
	// Off means that the kernel command line switches the partition off.
	Off bool
	// Notes says where the settings are not from the kubelet alone.
	Notes []string
}

// Input returns the input of a budget without a partition.
func (k *KubeletSettings) Input(c *Capacity) budget.Input {
	return budget.Input{Kubelet: k.Kubelet, IgnoreEviction: k.IgnoreEviction, Capacity: c.Resources, CPUs: c.CPUs}
}

// defaultRootDir is the default of --root-dir (cmd/kubelet/app/options/options.go).
const defaultRootDir = "/var/lib/kubelet"

// ReadKubeletSettings reads the configuration of the node at root, or files in place of it.
func ReadKubeletSettings(root host.Root, files []string) (KubeletSettings, error) {
	k := KubeletSettings{RootDir: defaultRootDir, From: KubeletOrigin{Files: []string{}}}
	if len(files) > 0 {
		names := make([]string, 0, len(files))
		for _, name := range files {
			absolute, err := filepath.Abs(name)
			if err != nil {
				return k, err
			}
			names = append(names, absolute)
		}
		c, err := kubeletconfig.LoadFiles(root, "", names...)
		if err != nil {
			return k, err
		}
		k.Section = c
		return k, k.read(c)
	}
	c, err := kubeletconfig.Load(root)
	if err != nil {
		return k, err
	}
	k.Section = c
	k.Off, _ = config.SwitchedOff(root) // the generator reports the error
	return k, k.readRunning(root, c)
}

// readRunning reads the settings of the running kubelet: the files that its command line names, and
// its flags. Without a running kubelet it reads the files of c.
func (k *KubeletSettings) readRunning(root host.Root, c *kubeletconfig.Merged) error {
	process, err := kubelet.Running(root)
	switch {
	case errors.Is(err, kubelet.ErrNotRunning) && len(c.Files) == 0:
		k.Notes = append(k.Notes, "no configuration of the kubelet was found: its defaults are used")
		k.Config, k.Kubelet.EvictionHard = c, budget.DefaultEvictionHard()
		return nil
	case errors.Is(err, kubelet.ErrNotRunning):
		k.Notes = append(k.Notes, fmt.Sprintf("%v: flags of a kubelet are not a part of this plan", err))
		return k.read(c)
	case err != nil:
		return err
	}
	var files []string
	if process.Config != "" {
		files = []string{below(process.Config)}
	}
	dir := process.ConfigDir
	if dir != "" {
		dir = below(dir)
	}
	theirs, err := kubeletconfig.LoadFiles(root, dir, files...)
	if err != nil {
		return err
	}
	theirs.SetFlags(process.Fields)
	k.From.KubeletPID, k.IgnoreEviction = process.PID, process.IgnoreEviction
	if process.RootDir != "" {
		k.RootDir = below(process.RootDir)
	}
	return k.read(theirs)
}

// below returns the path of a flag. A relative one is below /, where systemd starts services.
func below(name string) string { return path.Join("/", name) }

// read decodes the fields of the budget from the files of c.
func (k *KubeletSettings) read(c *kubeletconfig.Merged) error {
	k.Config, k.From.Files = c, append([]string{}, c.Files...)
	return c.DecodeInto(&k.Kubelet, setDefaults)
}

// setDefaults sets evictionHard in the main file as the kubelet does (loadConfigFile,
// cmd/kubelet/app/server.go). A main file without it has the defaults, and a drop-in changes single
// thresholds of them. mergeDefaultEvictionSettings adds the defaults of thresholds that the main
// file does not have.
func setDefaults(main map[string]json.RawMessage) error {
	const field = "evictionHard"
	var hard map[string]string
	var merge bool
	readable := true // what is not is reported when it is decoded
	if raw, ok := main[field]; ok {
		readable = json.Unmarshal(raw, &hard) == nil
	}
	if raw, ok := main["mergeDefaultEvictionSettings"]; ok {
		readable = readable && json.Unmarshal(raw, &merge) == nil
	}
	if !readable || hard != nil && !merge {
		return nil
	}
	values := budget.DefaultEvictionHard()
	for signal, value := range hard {
		values[signal] = value
	}
	raw, err := json.Marshal(values)
	main[field] = raw
	return err
}
