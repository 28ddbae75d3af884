package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"nodepartition/internal/hostfs"
)

// fieldsOf returns the fields of k, by their names in the file. No other field is decoded: errors
// elsewhere are the kubelet's business, and its quantities can take minutes to compare
// ("1e99999999", resource.Quantity of apimachinery 0.37.0).
func fieldsOf(k *Kubelet) []field {
	return []field{
		{"cgroupDriver", &k.CgroupDriver},
		{"cgroupsPerQOS", &k.CgroupsPerQOS},
		{"cgroupRoot", &k.CgroupRoot},
		{"cpuManagerPolicy", &k.CPUManagerPolicy},
		{"reservedSystemCPUs", &k.ReservedSystemCPUs},
		{"featureGates", &k.FeatureGates},
		{"enforceNodeAllocatable", &k.EnforceNodeAllocatable},
		{"kubeReservedCgroup", &k.KubeReservedCgroup},
		{"systemReservedCgroup", &k.SystemReservedCgroup},
	}
}

// endpointField holds the address of the kubelet's container runtime. No partition depends on it,
// so a value of the wrong type does not refuse the rest. It is of use even without a
// section, to move pods back.
const endpointField = "containerRuntimeEndpoint"

// field is a field of the configuration.
type field struct {
	name  string
	value any // pointer to the variable for it
}

// merge merges the documents and takes section, endpoint and origins from the result.
func (l *loader) merge() error {
	l.config.docs, l.config.hasMain = l.docs, l.hasMain
	if len(l.docs) == 0 {
		return nil
	}
	fields := l.docs[0].fields
	if len(l.docs) > 1 {
		names := relevant()
		var err error
		if fields, err = mergeOver(l.docs[0].only(names), l.docs[0].path, l.docs[1:], names); err != nil {
			return err
		}
	}
	l.config.origin = map[string]string{}
	for _, doc := range l.docs {
		for name := range doc.fields {
			l.config.origin[name] = doc.path
		}
		for field, depth := range map[string]int{SectionField: 1, WorkloadsField: 2} {
			l.config.noteOrigin(doc.path, field, doc.fields[field], depth)
		}
	}
	_ = json.Unmarshal(fields[endpointField], &l.config.RuntimeEndpoint) // ignored if of another type
	for _, name := range sectionFields() {
		*l.config.section(name) = Section{JSON: fields[name], File: l.config.origin[name]}
	}
	l.merged = fields
	return nil
}

// noteOrigin records that a file has the fields of an object, down to depth levels below path.
func (c *Merged) noteOrigin(file, path string, object json.RawMessage, depth int) {
	var fields map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(object, &fields) != nil {
		return
	}
	for name, value := range fields {
		at := path + "." + name
		c.origin[at] = file
		c.noteOrigin(file, at, value, depth-1)
	}
}

// decode decodes the fields of interest into the kubelet's own types. It leaves out a field of the
// wrong type, and returns an error for the first of them.
func (l *loader) decode() error {
	var first error
	for _, f := range fieldsOf(&l.config.Kubelet) {
		raw, ok := l.merged[f.name]
		if !ok {
			continue
		}
		if err := l.config.decode(f.name, raw, f.value); err != nil {
			reflect.ValueOf(f.value).Elem().SetZero() // a part of a list or map may have been decoded
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// override replaces sections by the sections in OverridePath, or in the document of a trial.
func (l *loader) override() error {
	if c := l.candidate; c != nil {
		var err error
		if len(c.data) > maxFileBytes {
			err = fmt.Errorf("%s: %w: more than %d bytes", c.name, hostfs.ErrTooLarge, maxFileBytes)
		}
		return l.tried(l.parse(c.name, c.data, err))
	}
	//guard: a broken trial is no reason to take the override
	doc, err := l.read(TrialPath)
	if !errors.Is(err, fs.ErrNotExist) {
		l.looked(OverridePath, "not read, "+TrialPath+" exists: a trial runs")
		return l.tried(doc, err)
	}
	doc, err = l.readPlace(OverridePath)
	if errors.Is(err, fs.ErrNotExist) {
		l.looked(OverridePath, lookMissing)
		l.noOverride = true
		return nil
	}
	if err != nil {
		return err
	}
	l.seen(doc)
	if !doc.hasSection() {
		l.config.Warnings = append(
			l.config.Warnings,
			fmt.Sprintf("%s: has no %s section and no %s, ignoring the file", OverridePath, SectionField, WorkloadsField),
		)
		return nil
	}
	l.replaceSections(doc)
	return nil
}

// tried takes the sections of a document on trial. A trial without any is an error: it can only be
// a mistake.
func (l *loader) tried(doc document, err error) error {
	if err != nil {
		return err
	}
	l.seen(doc)
	if !doc.hasSection() {
		return fmt.Errorf(
			"%s: has no %s section and no %s; want apiVersion, kind and one of these",
			doc.path, SectionField, WorkloadsField,
		)
	}
	l.replaceSections(doc)
	return nil
}

// replaceSections replaces the kubelet's own sections by those that doc has.
func (l *loader) replaceSections(doc document) {
	l.config.overriding = doc
	for _, name := range sectionFields() {
		if section, ok := doc.fields[name]; ok {
			*l.config.section(name) = Section{JSON: section, File: doc.path, overridden: true}
		}
	}
}
