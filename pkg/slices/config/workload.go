package config

import (
	"encoding/json"
	"errors"
	"slices"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// The fields of a workload partition that the system partition does not have.
const (
	// partitionField makes the pods that ask for the type members of the system partition. Its value
	// is "system".
	partitionField = "partition"
	// allowedField lists the namespaces whose pods get the type that they ask for.
	allowedField = "allowedNamespaces"
	// annotationField means that every pod that asks gets the type: policies of the API server let
	// only those ask whose namespace has an annotation that allows it. It is false where it is absent.
	annotationField = "namespaceAnnotation"
	// advertiseField means that the Node has the resource of the type. Where it is absent, it is true
	// if the partition has a cpuset.
	advertiseField = "advertise"
)

// typeFields lists the fields that a type has with and without a separate partition.
func typeFields() []string {
	return []string{partitionField, allowedField, annotationField, advertiseField}
}

// isTypeAlone reports whether a section makes no partition, but a type of another one.
func (s section) isTypeAlone() bool {
	return s[partitionField] != nil && string(s[partitionField]) != `""`
}

// newWorkloads validates the types. Their members are in the partition of that name, or in the
// system partition. managed says why the kubelet makes that itself; empty if it does not.
func newWorkloads(
	config *kubeletconfig.Merged, all sections, managed string,
) (list []partition.Workload, warnings []string, err error) {
	for _, name := range all.names() {
		if name == partition.System {
			continue
		}
		c := checker{config: config, name: name, section: all[name]}
		w := c.workload(all)
		if w.Partition == partition.System && managed != "" {
			c.warn(partitionField, "%q: does nothing: %s", partition.System, managed)
		} else {
			list = append(list, w)
		}
		warnings, err = append(warnings, c.warnings...), errors.Join(err, c.problems.err())
	}
	return list, warnings, err
}

func (c *checker) workload(all sections) partition.Workload {
	w := partition.Workload{Type: string(c.name), Partition: c.name}
	if c.section.isTypeAlone() {
		w.Partition = partition.System
		c.typeAlone(all)
	}
	w.Allowed, _ = c.namespaceList(allowedField, "operators") // several types may have the same
	c.read(annotationField, &w.ByNamespace, notBool)
	c.advertised(&w, all[w.Partition])
	if raw := c.section["namespaces"]; len(w.Allowed) == 0 && !w.ByNamespace && (raw == nil || string(raw) == "[]") {
		c.remark(annotationField, "no namespace has a way in: only static pods can be members")
	}
	return w
}

// advertised reads whether the Node has the resource of a type. The scheduler does not count such
// requests as CPU, and promises all CPUs of the node to others: a type without a cpuset would take
// theirs.
func (c *checker) advertised(w *partition.Workload, partition section) {
	var list string
	if json.Unmarshal(partition[cpusetField], &list) == nil {
		if cpus, err := text.ParseCPUs(list); err == nil { // otherwise the field has the error
			w.CPUs = cpus.Size()
		}
	}
	w.Advertise = w.CPUs > 0
	c.read(advertiseField, &w.Advertise, notBool)
	if w.Advertise && list == "" {
		c.warn(advertiseField, "does nothing without a cpuset: the resource is CPU time of the partition's own CPUs")
	}
	w.Advertise = w.Advertise && w.CPUs > 0
}

// typeAlone validates a section that makes no partition.
func (c *checker) typeAlone(all sections) {
	raw := c.section[partitionField]
	var value partition.Name
	if err := json.Unmarshal(raw, &value); err != nil || value != partition.System {
		c.bad(partitionField, shown(raw), "want %s or no value", partition.System)
		return
	}
	if _, ok := all[partition.System]; !ok {
		c.bad(partitionField, shown(raw), "there is no %s; want one, or a cpuset here", kubeletconfig.SectionField)
	}
	own := typeFields()
	for _, field := range knownFields(c.name) {
		if value := c.section[field]; value != nil && !slices.Contains(own, field) {
			c.bad(field, shown(value), "does not go with %s: %s; remove one", partitionField, partition.System)
		}
	}
	c.unknownFields()
}
