package node

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"nodepartition/internal/host"
	"nodepartition/internal/membership"
	"nodepartition/internal/statefile"
	"nodepartition/pkg/slices/config"
)

// NamespacesFile holds what the API server said of namespaces whose pods ask for a workload type. A
// restart of the monitor, and the pre-launched plugin, need no API server for these.
const NamespacesFile = config.StateDir + "/monitor/namespaces.json"

// namespacesVersion is the version of NamespacesFile.
const namespacesVersion = 1

// Namespaces holds what the API server said.
type Namespaces struct {
	// Known holds namespaces by their names.
	Known map[string]Namespace `json:"namespaces"`
	// Why is the reason why the API server has not answered for others; empty if it was not asked.
	Why membership.Refusal `json:"why,omitempty"`
}

// Namespace holds what the API server said of one.
type Namespace struct {
	// UID differs from the UID of a namespace of the same name that was deleted before.
	UID string `json:"uid"`
	// Types lists the workload types that its annotations allow.
	Types []string `json:"types,omitempty"`
}

// Allows implements membership.Allows. It does not know a namespace that is not among them.
func (n Namespaces) Allows(namespace, workload string) membership.Refusal {
	known, ok := n.Known[namespace]
	switch {
	case !ok && n.Why != "":
		return n.Why
	case !ok:
		return membership.NamespaceUnknown
	case !slices.Contains(known.Types, workload):
		return membership.NotAllowed
	}
	return ""
}

// AllowedByFile returns what NamespacesFile says. Without a file, and with one that cannot be read,
// no namespace is known.
func AllowedByFile(n host.Node) membership.Allows {
	all, _ := ReadNamespaces(n) // the service has logged why
	return all.Allows
}

type namespacesFile struct {
	Version int `json:"version"`
	Namespaces
}

// ReadNamespaces reads NamespacesFile. There are none without one.
func ReadNamespaces(n host.Node) (Namespaces, error) {
	var file namespacesFile
	path := n.Path(NamespacesFile)
	err := statefile.Read(path, &file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Namespaces{}, nil
	case err == nil && file.Version > namespacesVersion:
		err = fmt.Errorf("has version %d, and this program reads up to %d", file.Version, namespacesVersion)
	}
	if err != nil {
		return Namespaces{}, fmt.Errorf("%s: %w; remove it", path, err)
	}
	return file.Namespaces, nil
}

// WriteNamespaces replaces NamespacesFile.
func WriteNamespaces(n host.Node, all Namespaces) error {
	err := statefile.Write(n.Path(NamespacesFile), namespacesFile{namespacesVersion, all}, 0o600)
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
