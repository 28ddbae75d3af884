package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// NamespacesFile holds what the API server said of namespaces whose pods ask for a workload type. A
// restart of the monitor, and the pre-launched plugin, need no API server for these.
const NamespacesFile = config.StateDir + "/monitor/namespaces.json"

// namespacesVersion is the version of NamespacesFile.
const namespacesVersion = 1

// Remembered bounds the age of an answer of the API server that counts without another one: for the
// service while the API server does not answer, and for the pre-launched plugin, which cannot ask,
// always. A pod that is in the partition already stays for longer.
const Remembered = time.Hour

// Namespaces holds what the API server said, by the names of the namespaces.
type Namespaces struct {
	Known map[string]Namespace `json:"namespaces"`
}

// Namespace holds what the API server said of one.
type Namespace struct {
	// UID differs from the UID of a namespace of the same name that was deleted before.
	UID string `json:"uid,omitempty"`
	// Types lists the workload types that its annotations allow.
	Types []string `json:"types,omitempty"`
	// Doubted lists types, also in Types, that the last answer did not allow. They are in doubt until
	// the next answer: taking a right back restarts pods, and an annotation may be about to come back.
	Doubted []string `json:"doubted,omitempty"`
	// Heard is the time of the last answer; zero without one.
	Heard time.Time `json:"heard,omitzero"`
	// Why is the reason why the API server has not answered since; empty if it has.
	Why partition.Refusal `json:"why,omitempty"`
}

// After returns what is known after an answer, which allows these types.
func (n Namespace) After(uid string, types []string, now time.Time) Namespace {
	heard := Namespace{UID: uid, Types: slices.Clone(types), Heard: now}
	if uid != n.UID && uid != "" {
		return heard // another namespace of that name
	}
	for _, one := range n.Types {
		//guard: a namespace that allows less is believed the second time
		//guard: a namespace loses a type when the same type is missing twice
		if !slices.Contains(types, one) && !slices.Contains(n.Doubted, one) {
			heard.Types, heard.Doubted = append(heard.Types, one), append(heard.Doubted, one)
		}
	}
	return heard
}

// Allows returns whether the namespace allows a workload type at a time. A denial does not age: a
// pod that is on its way out of a partition must not turn back. Neither does a right count after
// the API server has refused to say whether it is still there.
func (n Namespace) Allows(workload string, now time.Time) partition.Refusal {
	age, heard := now.Sub(n.Heard), !n.Heard.IsZero()
	switch {
	//guard: a denial does not age
	case heard && !slices.Contains(n.Types, workload):
		return partition.NotAllowed
	//guard: a type in doubt gives nothing to a new pod
	//guard: an answer of the future is none
	//guard: an answer counts for an hour without another one
	//guard: a right does not count after the API server refuses to tell
	case !heard, age < 0, age >= Remembered, n.Why == partition.Forbidden, slices.Contains(n.Doubted, workload):
		return cmp.Or(n.Why, partition.NamespaceUnknown)
	}
	return ""
}

// Allows implements partition.Allows. It does not know a namespace that is not among them.
func (n Namespaces) Allows(namespace, workload string) partition.Refusal {
	return n.Known[namespace].Allows(workload, time.Now())
}

// AllowedByFile returns what NamespacesFile says. Without a file, and with one that cannot be read,
// no namespace is known.
func AllowedByFile(n host.Node) partition.Allows {
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
	err := host.ReadStateVersion(path, namespacesVersion, &file)
	if errors.Is(err, fs.ErrNotExist) {
		return Namespaces{}, nil
	}
	if err != nil {
		return Namespaces{}, fmt.Errorf("%s: %w; remove it", path, err)
	}
	return file.Namespaces, nil
}

// WriteNamespaces replaces NamespacesFile.
func WriteNamespaces(n host.Node, all Namespaces) error {
	err := host.WriteState(n.Path(NamespacesFile), namespacesFile{namespacesVersion, all}, 0o600)
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}
