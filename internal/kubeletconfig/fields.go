package kubeletconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/text"
)

// LoadFiles reads the files of a kubelet that was started with --config=file and --config-dir=dir.
// An empty path means that the flag is not given: the kubelet then reads no such file, and neither
// does LoadFiles. More files are merged over the first like drop-ins. A section that one file alone
// has, which has nothing else, overrides, as one of OverridePath does. LoadFiles reads neither that
// nor TrialPath, and does not decode Kubelet.
func LoadFiles(root host.Root, dir string, files ...string) (*Merged, error) {
	l := loader{root: root, left: maxTotalBytes, config: &Merged{hasMain: len(files) > 0}}
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
	l.merge()
	l.markAlone()
	return l.config, nil
}

// commandLine is where a field is from that a flag of the kubelet sets.
const commandLine = "the kubelet's command line"

// SetFlags replaces fields of the files by those that flags of the kubelet set.
func (c *Merged) SetFlags(fields map[string]any) { c.flags = fields }

// DecodeInto decodes the merged configuration into the struct that target points to: each field of
// the configuration into the field of the struct that has its name in JSON. Load decodes the fields
// of Kubelet; DecodeInto is for a program that needs others. setDefaults is called with the fields
// of the main file, if there is one, before the drop-ins are merged over them. It may be nil. The
// error is about the first field, in the order of the struct, that has the wrong type.
func (c *Merged) DecodeInto(target any, setDefaults func(main map[string]json.RawMessage) error) error {
	values, err := c.merged(setDefaults)
	if err != nil {
		return err
	}
	return c.decode(target, values)
}

// decode decodes fields into a struct. It leaves out a field of the wrong type, and returns an
// error for the first of them, which names the last file that sets the field.
func (c *Merged) decode(target any, values map[string]json.RawMessage) error {
	var first error
	for _, f := range namedFields(reflect.ValueOf(target).Elem()) {
		raw, ok := values[f.name]
		if !ok || json.Unmarshal(raw, f.value) == nil {
			continue
		}
		reflect.ValueOf(f.value).Elem().SetZero() // a part of a list or map may have been decoded
		if first == nil {
			first = fmt.Errorf("%s: %s: %s has the wrong type; see the kubelet's KubeletConfiguration (v1beta1)",
				c.FileWith(f.name), f.name, text.ASCII(string(raw)))
		}
	}
	return first
}

type field struct {
	name  string
	value any // pointer to the variable for it
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
