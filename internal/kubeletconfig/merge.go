package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
)

// endpointField holds the address of the kubelet's container runtime. No partition depends on it,
// so a value of the wrong type does not refuse the rest. It is of use even without a
// section, to move pods back.
const endpointField = "containerRuntimeEndpoint"

// merge merges the documents, and takes section and endpoint from the result.
func (l *loader) merge() {
	c := l.config
	c.origin = map[string]string{}
	c.fields, _ = c.merged(c.origin, nil)
	_ = json.Unmarshal(c.fields[endpointField], &c.RuntimeEndpoint) // ignored if of another type
	for _, name := range sectionFields() {
		*c.section(name) = Section{JSON: c.fields[name], File: c.origin[name]}
	}
}

// merged returns the fields of all documents and flags, and records in of the file that each is
// from.
// setDefaults changes those of the main file, if there is one, before the drop-ins are merged over
// it; nil for no change.
func (c *Merged) merged(
	of map[string]string, setDefaults func(main map[string]json.RawMessage) error,
) (map[string]json.RawMessage, error) {
	merged := map[string]any{}
	for i, doc := range c.docs {
		fields := doc.fields
		if i == 0 && c.hasMain && setDefaults != nil {
			fields = maps.Clone(fields)
			if err := setDefaults(fields); err != nil {
				return nil, fmt.Errorf("%s: %w", doc.path, err)
			}
		}
		file := origin{file: doc.path, of: of, patch: i > 0}
		file.over(merged, treeOf(fields), "", 0)
	}
	fields := map[string]json.RawMessage{}
	for name, value := range merged {
		fields[name], _ = json.Marshal(value) // of JSON
	}
	for name, value := range c.flags {
		fields[name], _ = json.Marshal(value) // of texts, switches, lists and maps
	}
	return fields, nil
}

// treeOf decodes fields, with numbers as they are written.
func treeOf(fields map[string]json.RawMessage) (tree map[string]any) {
	text, _ := json.Marshal(fields) // of JSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&tree)
	return tree
}

// origin is a file that is merged. It is a patch over the files before it, or the first one.
type origin struct {
	file  string
	of    map[string]string
	patch bool
}

// originLevels is the number of levels of which the origin is recorded: a message names a field of
// a section in workloadPartitions at most.
const originLevels = 3

// over merges fields of the file over an object of the files before it, as the kubelet does (RFC
// 7386): objects are merged, and everything else is replaced. A null of a patch removes. It records
// the file as the origin of each field. path is that of the object, and ends with a dot.
func (o origin) over(object, fields map[string]any, path string, level int) {
	for name, value := range fields {
		below := path
		//guard: the path of a field is not written out at each level
		if level < originLevels {
			below += name
			o.of[below] = o.file
			below += "."
		}
		inner, isObject := value.(map[string]any)
		before, _ := object[name].(map[string]any)
		if !isObject {
			o.forget(before, below, level+1)
		}
		switch {
		case value == nil && o.patch:
			delete(object, name)
		case !isObject:
			object[name] = value
		default:
			if before == nil {
				before = map[string]any{}
				object[name] = before
			}
			o.over(before, inner, below, level+1)
		}
	}
}

// forget drops the origins of the fields below an object that a file has removed or replaced.
func (o origin) forget(object map[string]any, path string, level int) {
	for name, value := range object {
		if level < originLevels {
			delete(o.of, path+name)
			inner, _ := value.(map[string]any)
			o.forget(inner, path+name+".", level+1)
		}
	}
}

// override replaces sections by the sections in OverridePath, or in the document of a trial.
func (l *loader) override() error {
	if c := l.candidate; c != nil {
		return l.tried(l.parse(c.Name, c.Data, nil))
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
	if err == nil && !doc.hasSection() {
		l.seen(doc)
		l.config.Warnings = append(
			l.config.Warnings,
			fmt.Sprintf("%s: has no %s section and no %s, ignoring the file", OverridePath, SectionField, WorkloadsField),
		)
		return nil
	}
	return l.tried(doc, err)
}

// tried replaces the kubelet's own sections by those that a document has. One without any is an
// error: it can only be a mistake.
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
	l.config.overriding = doc
	for _, name := range sectionFields() {
		if section, ok := doc.fields[name]; ok {
			*l.config.section(name) = Section{JSON: section, File: doc.path, overridden: true}
			maps.DeleteFunc(l.config.origin, func(at, _ string) bool { return strings.HasPrefix(at, name+".") })
		}
	}
	return nil
}
