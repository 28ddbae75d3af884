package kubeletconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
)

// LoadFiles reads the files of a kubelet that was started with --config=file and --config-dir=dir.
// An empty path means that the flag is not given: the kubelet then reads no such file, and neither
// does LoadFiles. More files are merged over the first like drop-ins. A section that one file alone
// has, which has nothing else, overrides, as one of OverridePath does. LoadFiles reads neither that
// nor TrialPath, and does not decode Kubelet.
func LoadFiles(root hostfs.FS, dir string, files ...string) (*Merged, error) {
	l := loader{root: root, left: maxTotalBytes, config: &Merged{}, hasMain: len(files) > 0}
	for _, name := range files {
		if err := l.add(l.read(name)); err != nil {
			return &Merged{Looked: l.config.Looked}, err
		}
	}
	if dir != "" {
		if err := l.walk(dir, 0); err != nil {
			return &Merged{Looked: l.config.Looked}, err
		}
	}
	if err := l.merge(); err != nil {
		return &Merged{Looked: l.config.Looked}, err
	}
	l.markAlone()
	return l.config, nil
}

// DecodeInto decodes the merged configuration into the struct that target points to: each field of
// the configuration into the field of the struct that has its name in JSON. Load decodes the fields
// of Kubelet; DecodeInto is for a program that needs others. setDefaults is called with these
// fields of the main file, if there is one, before the drop-ins are merged over them. It may be
// nil. The error is about the first field, in the order of the struct, that has the wrong type.
func (c *Merged) DecodeInto(target any, setDefaults func(main map[string]json.RawMessage) error) error {
	targets := namedFields(reflect.ValueOf(target).Elem())
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, t.name)
	}
	values, err := c.fields(names, setDefaults)
	if err != nil {
		return err
	}
	for _, t := range targets {
		raw, ok := values[t.name]
		if !ok {
			continue
		}
		if err := c.decode(t.name, raw, t.value); err != nil {
			return err
		}
	}
	return nil
}

// namedFields returns the fields of a struct that have a name in JSON, including the fields of
// embedded structs.
func namedFields(v reflect.Value) []field {
	var list []field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			list = append(list, namedFields(v.Field(i))...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			list = append(list, field{name, v.Field(i).Addr().Interface()})
		}
	}
	return list
}

// fields returns the named fields of the merged configuration.
func (c *Merged) fields(
	names []string,
	setDefaults func(main map[string]json.RawMessage) error,
) (map[string]json.RawMessage, error) {
	if len(c.docs) == 0 {
		return nil, nil
	}
	first := c.docs[0]
	base := first.only(names)
	if c.hasMain && setDefaults != nil {
		if err := setDefaults(base); err != nil {
			return nil, fmt.Errorf("%s: %w", first.path, err)
		}
	}
	return mergeOver(base, first.path, c.docs[1:], names)
}

// decode decodes a field. The error names the last file that sets the field.
func (c *Merged) decode(name string, raw json.RawMessage, value any) error {
	if err := json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("%s: %s: %s has the wrong type; see the kubelet's KubeletConfiguration (v1beta1)",
			c.FileWith(name), name, oneline.ASCII(string(raw)))
	}
	return nil
}
