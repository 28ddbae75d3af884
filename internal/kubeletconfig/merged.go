package kubeletconfig

import (
	"encoding/json"
	"strings"

	"node-partition.io/node-partition/internal/host"
)

// Section is one of the two sections of the merged configuration.
type Section struct {
	// JSON is the section; nil if there is none.
	JSON json.RawMessage
	// File is the last file that contributed to it.
	File string
	// Overrides means that it comes from OverridePath or from a document in its place.
	Overrides bool
	// from lists the documents that it was merged from, if it is not of one alone.
	from []document
	// files holds the answers of SectionFileWith.
	files map[string]string
}

// Merged is the part of the kubelet's configuration that bears on partitions.
type Merged struct {
	// Kubelet holds the merged configuration. Without a section, a field of the wrong type counts as
	// missing.
	Kubelet Kubelet
	// Settings holds the settings outside the configuration.
	Settings Settings
	// System is the section SectionField, and Workloads is WorkloadsField.
	System, Workloads Section
	// Pinning holds OpenShift's workload types. Those that no section has are in Workloads.
	Pinning Pinning
	// RuntimeEndpoint is containerRuntimeEndpoint of the merged configuration, with or without a
	// section. Empty if the configuration does not set it.
	RuntimeEndpoint string
	// Files lists the files of the kubelet's configuration that were read, in the order of merging.
	Files []string
	// Looked lists the paths that were checked for a configuration, in their order, read or not.
	Looked []Look
	// Late lists paths that may still appear during the boot.
	Late host.Late
	// Idle lists the usual places below an automount point with nothing mounted, which count as
	// missing.
	Idle []string
	// Awaited lists paths where what is missing may be made later: a configuration by kubeadm join,
	// cloud-init, or the first start of k3s; a section in OverridePath. It is empty if there is a
	// section.
	Awaited Awaited
	// Watchable means that a path unit may watch OverridePath: see host.Mounts.Watchable.
	Watchable bool
	// Warnings lists remarks that are not errors.
	Warnings []string

	fields map[string]json.RawMessage // of all documents
	// docs holds the documents of Files. hasMain means that the first is a main file.
	docs    []document
	hasMain bool
	// flags holds fields that replace those of docs; nil for none.
	flags map[string]any
	// overriding is the document whose sections override; empty if there is none.
	overriding document
}

// Awaited lists paths for the kubelet's configuration and for the section that do not exist yet.
type Awaited struct {
	// Files lists OverridePath and the paths for a main file.
	Files []string
	// Globs lists patterns for drop-ins. They are for a kubelet that has only drop-ins, as with k3s.
	Globs []string
	// Unwatched lists files and folders that no path unit may watch: see host.Mounts.Watchable.
	Unwatched []string
}

// Any reports whether anything is awaited.
func (a Awaited) Any() bool { return len(a.Files)+len(a.Globs)+len(a.Unwatched) > 0 }

// Look is a path that was checked for a configuration.
type Look struct {
	Path string `json:"path"`
	// Result is "read", or the reason for ignoring the path.
	Result string `json:"result"`
}

// WasRead reports whether the path was read.
func (l Look) WasRead() bool { return l.Result == lookRead }

// WithoutSections returns the kubelet's own settings, and where they were looked for.
func (c *Merged) WithoutSections() *Merged {
	return &Merged{Kubelet: c.Kubelet, Files: c.Files, Looked: c.Looked, docs: c.docs}
}

// FileWith returns the file to change for a field of the kubelet's configuration: the last file
// that sets it, or else the last file that was read.
func (c *Merged) FileWith(field string) string {
	if _, ok := c.flags[field]; ok {
		return commandLine
	}
	if file := fileOf(c.docs, field); file != "" {
		return file
	}
	if len(c.Files) > 0 {
		return c.Files[len(c.Files)-1]
	}
	return wellKnownFiles[0]
}

// SectionFileWith returns the file to change for a field of a section, by its path such as
// systemPartition.memoryLimit: the last file that sets it, or else what is above it in the section.
func (c *Merged) SectionFileWith(path string) string {
	name, _, _ := strings.Cut(path, ".")
	s := c.section(name)
	//guard: a file of many mistakes is not parsed for each of them
	if file, ok := s.files[path]; ok {
		return file
	}
	if s.files == nil {
		s.files = map[string]string{}
	}
	s.files[path] = s.fileWith(name, path)
	return s.files[path]
}

func (s *Section) fileWith(name, path string) string {
	for at := path; at != name; at = at[:strings.LastIndexByte(at, '.')] {
		if file := fileOf(s.from, at); file != "" {
			return file
		}
	}
	return s.File
}

// OverrideDigest returns the SHA-256 of the bytes of the document whose sections override, in
// hexadecimal digits: of OverridePath, of a trial, or of a document in their place. It is empty if
// no section overrides.
func (c *Merged) OverrideDigest() string { return c.overriding.digest }

func (c *Merged) section(field string) *Section {
	if field == WorkloadsField {
		return &c.Workloads
	}
	return &c.System
}

// OnTrial reports whether a section is one of a trial.
func (c *Merged) OnTrial() bool { return c.System.File == TrialPath || c.Workloads.File == TrialPath }

func (c *Merged) hasSection() bool { return c.System.JSON != nil || c.Workloads.JSON != nil }
