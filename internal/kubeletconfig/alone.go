package kubeletconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
)

// LoadDocument reads one document, which messages call name, and nothing of a node. A document that
// has a field of the kubelet counts as the kubelet's own configuration, and any other one as
// OverridePath: Section.Overrides tells which. One without a section is an error.
func LoadDocument(name string, data []byte) (*Merged, error) {
	l := loader{left: maxTotalBytes, config: &Merged{}, hasMain: true}
	if len(data) > maxFileBytes {
		return l.config, fmt.Errorf("%s: %w: more than %d bytes", name, hostfs.ErrTooLarge, maxFileBytes)
	}
	doc, err := l.parse(name, data, nil)
	if err != nil || !doc.hasSection() || doc.standsIn() {
		return l.config, l.tried(doc, err)
	}
	if err := l.add(doc, nil); err != nil {
		return l.config, err
	}
	if err := l.merge(); err != nil {
		return l.config, err
	}
	return l.config, l.decode()
}

// standsIn reports whether a document is for OverridePath, by its name or by its content. A drop-in
// has no other content, either, and is the kubelet's by its name.
func (d document) standsIn() bool {
	switch {
	case path.Base(d.path) == path.Base(OverridePath):
		return true
	case path.Ext(d.path) == dropinExtension, slices.Contains(wellKnownFiles, d.path):
		return false
	}
	return len(d.strangers()) == 0
}

// strangers lists, in their order, the fields that are not for OverridePath. A name that is nearly
// the name of a section is a typing error.
func (d document) strangers() []string {
	known := append(sectionFields(), "apiVersion", "kind")
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.fields)), func(name string) bool {
		return slices.Contains(known, name) || Near(name, sectionFields()...) != ""
	})
}

// maxStrangers bounds the number of warnings about fields.
const maxStrangers = 10

// strangers warns of fields that are not for OverridePath, and have no warning yet.
func (l *loader) strangers(doc document) {
	warned := fieldsOf(&Kubelet{})
	unknown := slices.DeleteFunc(doc.strangers(), func(name string) bool {
		return slices.ContainsFunc(warned, func(f field) bool { return f.name == name })
	})
	for i, name := range unknown {
		if i == maxStrangers {
			l.config.Warnings = append(l.config.Warnings,
				fmt.Sprintf("%s: %d more unknown fields, ignoring", doc.path, len(unknown)-maxStrangers))
			return
		}
		l.config.Warnings = append(l.config.Warnings, fmt.Sprintf("%s: unknown field %s, ignoring; known here are %s",
			doc.path, oneline.Quote(name), strings.Join(append([]string{"apiVersion", "kind"}, sectionFields()...), ", ")))
	}
}

// markAlone makes each section override that one document alone has, if that is for OverridePath.
func (l *loader) markAlone() {
	for _, name := range sectionFields() {
		have := slices.DeleteFunc(slices.Clone(l.docs), func(d document) bool { _, ok := d.fields[name]; return !ok })
		if len(have) == 1 && have[0].standsIn() {
			l.config.section(name).overridden = true
		}
	}
}
