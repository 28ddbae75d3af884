package kubeletconfig

import (
	"maps"
	"path"
	"slices"
)

// LoadDocument reads one document, which messages call name, and nothing of a node. A document that
// has a field of the kubelet's counts as the kubelet's own configuration, and any other one as
// OverridePath: Section.Overrides tells which. One without a section is an error.
func LoadDocument(name string, data []byte) (*Merged, error) {
	l := loader{left: maxTotalBytes, config: &Merged{hasMain: true}}
	doc, err := l.parse(name, data, nil)
	if err != nil || !doc.hasSection() || doc.standsIn() {
		return l.config, l.tried(doc, err)
	}
	if err := l.add(doc, nil); err != nil {
		return l.config, err
	}
	l.merge()
	return l.config, l.config.decode(&l.config.Kubelet, l.config.fields)
}

// standsIn reports whether a document is for OverridePath, by its name or by its content. A drop-in
// has no other content, either, and is the kubelet's by its name. A field that neither of the two
// has decides nothing: it is a mistake in either.
func (d document) standsIn() bool {
	switch {
	case path.Base(d.path) == path.Base(OverridePath):
		return true
	case path.Ext(d.path) == dropinExtension, slices.Contains(wellKnownFiles, d.path):
		return false
	}
	return d.ofKubelet() == ""
}

// OfKubelet returns the field by which a document that LoadDocument has read counts as the
// kubelet's own configuration. It is empty if the document does not, or does so by its name.
func (c *Merged) OfKubelet() string {
	for _, d := range c.docs {
		if name := d.ofKubelet(); name != "" {
			return name
		}
	}
	return ""
}

// Strangers returns the file with the sections that override, and lists by name the fields that are
// not for it. A name that is nearly the name of a section has a warning already.
func (c *Merged) Strangers() (file string, fields []string) {
	known := append(sectionFields(), "apiVersion", "kind")
	return c.overriding.path, slices.DeleteFunc(slices.Sorted(maps.Keys(c.overriding.fields)), func(name string) bool {
		return slices.Contains(known, name) || isNearlySection(name)
	})
}

// markAlone makes each section override that one document alone has, if that is for OverridePath.
func (l *loader) markAlone() {
	for _, name := range sectionFields() {
		have := slices.DeleteFunc(slices.Clone(l.config.docs), func(d document) bool { _, ok := d.fields[name]; return !ok })
		if len(have) == 1 && have[0].standsIn() {
			l.config.section(name).Overrides = true
		}
	}
}
