package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// endpointField holds the address of the kubelet's container runtime. No partition depends on it,
// so a value of the wrong type does not refuse the rest. It is of use even without a
// section, to move pods back.
const endpointField = "containerRuntimeEndpoint"

// merge merges the documents, and takes sections and endpoint from the result.
func (l *loader) merge() {
	c := l.config
	c.fields, _ = c.merged(nil)
	_ = json.Unmarshal(c.fields[endpointField], &c.RuntimeEndpoint) // ignored if of another type
	for _, name := range sectionFields() {
		*c.section(name) = Section{JSON: c.fields[name], File: fileOf(c.docs, name), from: c.docs}
	}
}

// merged returns the fields of all documents and flags. setDefaults changes those of the main file,
// if there is one, before the drop-ins are merged over it; nil for no change.
func (c *Merged) merged(setDefaults func(main map[string]json.RawMessage) error) (map[string]json.RawMessage, error) {
	merged := map[string]any{}
	for i, doc := range c.docs {
		fields := doc.fields
		if i == 0 && c.hasMain && setDefaults != nil {
			fields = maps.Clone(fields)
			if err := setDefaults(fields); err != nil {
				return nil, fmt.Errorf("%s: %w", doc.path, err)
			}
		}
		if tree := treeOf(fields); i == 0 {
			merged = tree
		} else {
			patch(merged, tree)
		}
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

// patch merges fields over an object as the kubelet does (RFC 7386): objects are merged, everything
// else is replaced, and null removes.
func patch(object, fields map[string]any) {
	for name, value := range fields {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, name)
		case !isObject:
			object[name] = value
		default:
			before, _ := object[name].(map[string]any)
			if before == nil {
				before = map[string]any{}
				object[name] = before
			}
			patch(before, inner)
		}
	}
}

// fileOf returns the last document that sets a field, by its path such as
// systemPartition.memoryLimit. It is empty if none does, or if a later one has removed or replaced
// what the field is in.
func fileOf(docs []document, path string) string {
	for _, doc := range slices.Backward(docs) {
		if sets, replaces := doc.sets(path); sets {
			return doc.path
		} else if replaces {
			break
		}
	}
	return ""
}

// sets reports whether a document has a field, and whether it has something that is no object in
// place of what the field is in. The name of a field may have dots.
func (d document) sets(path string) (sets, replaces bool) {
	for fields := d.fields; ; {
		if _, ok := fields[path]; ok {
			return true, false
		}
		name, rest, _ := strings.Cut(path, ".")
		raw, ok := fields[name]
		if !ok {
			return false, false
		}
		fields, path = nil, rest
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			return false, true
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
			*l.config.section(name) = Section{JSON: section, File: doc.path, Overrides: true}
		}
	}
	return nil
}
