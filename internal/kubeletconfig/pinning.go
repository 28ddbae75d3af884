package kubeletconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/text"
)

// pinningPath holds OpenShift's workload types of a node, with the CPUs of each:
// {"management": {"cpuset": "0-1"}} (openshift/enhancements, management-workload-partitioning).
const pinningPath = "/etc/kubernetes/openshift-workload-pinning"

const maxPinningBytes = 64 << 10

// pinningCPUs is the field of a type in pinningPath. An empty list means all CPUs.
const pinningCPUs = "cpuset"

// pinningAsks is the field by which a pod gets the type if the API server lets it ask. OpenShift's
// kubelet asks for no other right.
const pinningAsks = "namespaceAnnotation"

// Pinning holds the workload types of pinningPath.
type Pinning struct {
	// File is the path that was read; empty if there is none.
	File string
	// CPUs holds the list of each type as it is written.
	CPUs map[string]string
}

// pinning adds the types of the pinning file to the section of workload partitions. A type that a
// section has stays as it is there, also one that is null.
func (l *loader) pinning(setting string) error {
	if setting == pinningNone {
		return nil
	}
	name := pinningPath
	if setting != "" {
		name = setting
		//guard: a pinning file below an idle automount is not looked at
	} else if l.mounts.Idle(name) {
		l.config.Idle = append(l.config.Idle, name)
		return nil
	}
	data, err := l.root.ReadFile(name, maxPinningBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return l.withoutPinning(setting, err)
	}
	//guard: OpenShift's own kubelet keeps its pinning file
	if owner := openShift(l.root); owner != "" {
		l.looked(name, "not followed, "+owner)
		l.config.Warnings = append(l.config.Warnings, fmt.Sprintf(
			"%s: not followed: %s, whose own kubelet and runtime pin these workloads; to have partitions all the same, write them into %s",
			name, owner, OverridePath,
		))
		return nil
	}
	if errors.Is(err, host.ErrTooLarge) {
		return fmt.Errorf("%w; OpenShift's pinning file is at most %d bytes", err, maxPinningBytes)
	}
	if err != nil {
		return err
	}
	l.looked(name, lookRead)
	var warnings []string
	if l.config.Pinning, warnings, err = parsePinning(name, data); err != nil {
		return err
	}
	l.config.Warnings = append(l.config.Warnings, warnings...)
	return l.addPinned()
}

// withoutPinning returns an error about a missing pinning file that the settings name, unless its
// file system may still be mounted.
func (l *loader) withoutPinning(setting string, err error) error {
	if setting == "" {
		return nil
	}
	l.missing = append(l.missing, setting)
	l.config.Late = l.mounts.Late(l.missing, l.dirs)
	//guard: a pinning file may come with its file system
	if !slices.Contains(l.config.Late.Paths, setting) {
		return fmt.Errorf("%w; change %s in %s", err, pinningKey, SettingsPath)
	}
	l.looked(setting, lookMissing)
	return nil
}

// addPinned adds the types that the section does not have.
func (l *loader) addPinned() error {
	c := l.config
	workloads, ok := objectOf(c.Workloads.JSON)
	if !ok {
		return nil // whoever validates the section reports it
	}
	added := map[string]map[string]any{}
	for name, cpus := range c.Pinning.CPUs {
		//guard: a section counts before the pinning file
		if _, ok := workloads[name]; ok {
			continue
		}
		added[name] = map[string]any{pinningAsks: true}
		if cpus != "" {
			added[name][pinningCPUs] = cpus
		}
		workloads[name], _ = json.Marshal(added[name])
	}
	if len(workloads) == 0 {
		return nil
	}
	c.Workloads.File = cmp.Or(c.Workloads.File, c.Pinning.File)
	types, _ := json.Marshal(added)
	c.Workloads.from = append(slices.Clip(c.Workloads.from), document{
		path: c.Pinning.File, fields: map[string]json.RawMessage{WorkloadsField: types},
	})
	var err error
	c.Workloads.JSON, err = json.Marshal(workloads)
	return err
}

// objectOf returns the fields of an object, none for null or nothing, and false for another value.
func objectOf(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	fields := map[string]json.RawMessage{}
	if len(raw) == 0 || string(raw) == "null" {
		return fields, true
	}
	return fields, json.Unmarshal(raw, &fields) == nil
}

// parsePinning reads the types and their CPUs. It returns warnings about fields that nothing reads.
func parsePinning(name string, data []byte) (p Pinning, warnings []string, err error) {
	var types map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &types); err != nil {
		return Pinning{}, nil, fmt.Errorf(
			`%s: is not a JSON object of workload types; want e.g. {"management": {"cpuset": "0-1"}}, or remove the file`, name,
		)
	}
	p = Pinning{File: name, CPUs: make(map[string]string, len(types))}
	for _, one := range slices.Sorted(maps.Keys(types)) {
		p.CPUs[one] = ""
		for _, field := range slices.Sorted(maps.Keys(types[one])) {
			at, raw := fmt.Sprintf("%s: %s.%s", name, text.ASCII(one), text.ASCII(field)), types[one][field]
			if field != pinningCPUs {
				warnings = append(warnings, at+": not a field of the pinning file, ignoring it")
				continue
			}
			var cpus string
			if err := json.Unmarshal(raw, &cpus); err != nil {
				return Pinning{}, nil, fmt.Errorf(
					`%s: %s is not a string; want a list of CPUs such as "0-1"`, at, text.ASCII(string(raw)),
				)
			}
			p.CPUs[one] = cpus
		}
	}
	return p, warnings, nil
}

// openShiftKey is in the os-release of OpenShift's nodes.
const openShiftKey = "OPENSHIFT_VERSION"

// openShift returns what shows that the node is OpenShift's own, empty if nothing does. Its nodes
// have openShiftKey in os-release; MicroShift runs a kubelet on any system.
func openShift(root host.Root) string {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := root.ReadFile(name, maxPinningBytes)
		if err != nil {
			continue
		}
		// The other lines may be in a form that the parser refuses.
		release, err := parseLines(data, openShiftKey)
		if err == nil && release[openShiftKey] != "" {
			return name + " has " + openShiftKey
		}
		break
	}
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} {
		if unit := path.Join(dir, "microshift.service"); root.Exists(unit) {
			return unit + " is there"
		}
	}
	return ""
}
