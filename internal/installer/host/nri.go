package host

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/store"
)

// dropIn is a file that switches NRI on in a runtime.
type dropIn struct {
	// runtime is the word by which a roll asks for it, and service the unit that has to be restarted.
	runtime, service string
	path             string
	// text is the content; %d is the version of containerd's configuration.
	text string
}

// dropIns lists the files by their runtimes.
func dropIns() []dropIn {
	return []dropIn{
		{
			"containerd", "containerd.service", "/etc/containerd/conf.d/99-node-partition-nri.toml",
			"# Written by partition-installer: containerd asks partition-monitor where containers belong.\n" +
				"version = %d\n\n[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = false\n  disable_connections = false\n",
		},
		{
			"crio", "crio.service", "/etc/crio/crio.conf.d/99-node-partition-nri.conf",
			"# Written by partition-installer: CRI-O asks partition-monitor where containers belong.\n" +
				"[crio.nri]\nenable_nri = true\n",
		},
	}
}

// containerdConfig is the file whose imports have to lead to the drop-in.
const containerdConfig = "/etc/containerd/config.toml"

// nriSocket is the socket at which a runtime serves NRI.
const nriSocket = "/var/run/nri/nri.sock"

// NRIRuntimes returns the words for runtimes whose NRI a roll can switch on.
func NRIRuntimes() []string {
	known := dropIns()
	all := make([]string, 0, len(known))
	for _, d := range known {
		all = append(all, d.runtime)
	}
	return all
}

// dropInOf returns the drop-in at a path, nil for another file.
func dropInOf(name string) *dropIn {
	for _, d := range dropIns() {
		if d.path == name {
			return &d
		}
	}
	return nil
}

// dropInPaths lists the paths of all drop-ins.
func dropInPaths() []string {
	known := dropIns()
	all := make([]string, 0, len(known))
	for _, d := range known {
		all = append(all, d.path)
	}
	return all
}

// serviceOf returns the service that a change of the drop-in restarts.
func serviceOf(runtime string, state *manifest.State) string {
	if runtime == "" && state.Kept != nil {
		runtime = state.Kept.NRI // its drop-in is removed
	}
	for _, d := range dropIns() {
		if d.runtime == runtime {
			return d.service
		}
	}
	return ""
}

// servedBy returns the service that serves NRI by a drop-in among files of ours; empty for none. A
// drop-in that was changed since is not ours any more.
func (h *Host) servedBy(files []manifest.File) (string, error) {
	for _, f := range files {
		d := dropInOf(f.Path)
		if d == nil {
			continue
		}
		if is, err := h.Present(f.Path); err != nil {
			return "", err
			//guard: an uninstallation restarts a runtime whose drop-in was edited
		} else if is.Is(f) {
			return d.service, nil
		}
	}
	return "", nil
}

// containerdFile is the part of containerd's configuration that is read.
type containerdFile struct {
	Version int      `toml:"version"`
	Imports []string `toml:"imports"`
}

func (h *Host) containerd() (containerdFile, error) {
	var c containerdFile
	data, err := h.Root.ReadFile(containerdConfig, 1<<20)
	if err == nil {
		err = toml.Unmarshal(data, &c)
	}
	return c, err
}

// textFor returns the content of the drop-in on this host.
func (d dropIn) textFor(h *Host) string {
	if d.runtime != "containerd" {
		return d.text
	}
	// All files of one configuration have one version.
	c, err := h.containerd()
	if err != nil || c.Version == 0 {
		c.Version = 2
	}
	return fmt.Sprintf(d.text, c.Version)
}

// dropIn returns the drop-in that a roll needs, nil for none: because it is not asked for, or
// because the runtime serves NRI without it.
func (h *Host) dropIn(state manifest.State, runtime string) (*hostDropIn, error) {
	if runtime == "" {
		return nil, nil
	}
	i := slices.IndexFunc(dropIns(), func(d dropIn) bool { return d.runtime == runtime })
	if i < 0 {
		return nil, fmt.Errorf("--nri: want one of %v", NRIRuntimes())
	}
	d := dropIns()[i]
	ours := state.Kept != nil && slices.ContainsFunc(state.Kept.Files, func(f manifest.File) bool {
		return f.Path == d.path
	})
	if !ours && h.Root.Exists(nriSocket) {
		return nil, nil
	}
	if d.runtime == "containerd" {
		c, err := h.containerd()
		if err != nil {
			return nil, outcome.Because(outcome.Check, "--nri=%s: %w", runtime, err)
		}
		if !slices.ContainsFunc(c.Imports, func(pattern string) bool {
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(containerdConfig), pattern)
			}
			matches, err := filepath.Match(pattern, d.path)
			return err == nil && matches
		}) {
			return nil, outcome.Because(outcome.Check,
				"--nri=%s: %s does not import %s: add imports = [%q] to it, or switch NRI on there",
				runtime, containerdConfig, d.path, path.Dir(d.path)+"/*.toml")
		}
	}
	return &hostDropIn{d, h}, nil
}

// hostDropIn is a drop-in for one host.
type hostDropIn struct {
	dropIn
	host *Host
}

func (d *hostDropIn) file() manifest.File {
	return manifest.File{Path: d.path, Mode: 0o644, SHA256: store.Digest([]byte(d.textFor(d.host)))}
}
