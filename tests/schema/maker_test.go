// Package schema makes the JSON schema of /etc/kubernetes/node-partition.yaml, and the lists of
// fields in its manual page, from the types of pkg/slices/config. "go test ./tests/schema -update"
// writes docs/node-partition.schema.json and man/node-partition.5.
package schema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
)

// object is a JSON object. It is written with its keys sorted.
type object = map[string]any

// The forms of values, as regular expressions of both Go and JavaScript. Neither has all that the
// other one has, so that what cannot be written as one is left to the program: see onlyTheProgram.
const (
	// digits is a number, and positive one that is not zero.
	digits   = `([0-9]+([.][0-9]*)?|[.][0-9]+)`
	positive = `(0*[1-9][0-9]*([.][0-9]*)?|0*[.]0*[1-9][0-9]*)`
	zero     = `(0+([.]0*)?|[.]0+)`
	unit     = `([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?`

	quantityForm = `[+]?` + positive + unit
	reclaimForm  = `[+]?` + digits + unit + `|-` + zero + unit
	percentForm  = `[+]?(0*[1-9][0-9]?([.][0-9]*)?|0*[.]0*[1-9][0-9]*)%`
	neverForm    = `0%|100%`
	labelForm    = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	cpuForm      = `0*([0-7]?[0-9]{1,3}|80[0-9]{2}|81[0-8][0-9]|819[01])` // up to 8191
	cpusForm     = cpuForm + `(-` + cpuForm + `)?(,` + cpuForm + `(-` + cpuForm + `)?)*`
	durationForm = `[+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+`
)

// The bounds that the checker has (maxWorkloads, maxNamespaces).
const (
	maxWorkloads  = 16
	maxNamespaces = 1000
)

func text(forms ...string) object {
	return object{"type": "string", "pattern": "^(" + strings.Join(forms, "|") + ")$"}
}

// orNumber is a text that may be a number of bytes, too.
func orNumber(o object, least int) object {
	return object{"anyOf": []any{o, object{"type": "integer", "minimum": least}}}
}

// orNull is a value that may be null, which is an absent field.
func orNull(o object) object {
	o = maps.Clone(o)
	if of, ok := o["type"].(string); ok {
		o["type"] = []any{of, "null"}
	} else if list, ok := o["anyOf"].([]any); ok {
		o["anyOf"] = append(slices.Clone(list), isNull)
	} else {
		o = object{"anyOf": []any{o, isNull}}
	}
	return o
}

var isNull = object{"type": "null"}

// values holds the schema of each type of a value, by its name.
func values() map[string]object {
	positiveDuration := text(durationForm)
	positiveDuration["allOf"] = []any{object{"pattern": "[1-9]"}}
	return map[string]object{
		"apiVersion":     {"enum": []any{kubeletconfig.APIVersion}},
		"kind":           {"enum": []any{kubeletconfig.Kind}},
		"namespaceName":  {"type": "string", "pattern": "^" + labelForm + "$", "maxLength": 63},
		"otherPartition": {"enum": []any{"system", ""}},
		"quantityText":   orNumber(text(quantityForm), 1),
		"limitText":      orNumber(text(quantityForm, percentForm), 1),
		"thresholdText":  text(quantityForm, percentForm, neverForm),
		"reclaimText":    orNumber(text(reclaimForm, percentForm), 0),
		"durationText":   positiveDuration,
		"cpuList":        {"type": "string", "pattern": "^(" + cpusForm + ")?$"},
		"seconds":        {"type": "integer", "minimum": 0, "maximum": 1<<31 - 1},
		"bool":           {"type": "boolean"},
	}
}

// maker makes schemas of types.
type maker struct {
	values map[string]object
	// comments holds the comments of fields, by type and field.
	comments map[string]string
}

// newSchema returns the schema. source is the folder of the package config.
func newSchema(source string) ([]byte, error) {
	comments, err := fieldComments(source)
	if err != nil {
		return nil, err
	}
	m := maker{values(), comments}
	top, err := m.of(reflect.TypeFor[config.Document]())
	if err != nil {
		return nil, err
	}
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	top["title"] = kubeletconfig.OverridePath
	top["required"] = []any{"apiVersion", "kind"}
	top["anyOf"] = []any{
		object{"required": []any{kubeletconfig.SectionField}}, object{"required": []any{kubeletconfig.WorkloadsField}},
	}
	encoded, err := json.MarshalIndent(top, "", "  ")
	return append(encoded, '\n'), err
}

// of returns the schema of a type.
func (m maker) of(t reflect.Type) (object, error) {
	if value, ok := m.values[t.Name()]; ok {
		return value, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.Slice:
		items, err := m.of(t.Elem())
		return object{"type": "array", "items": items, "uniqueItems": true, "maxItems": maxNamespaces}, err
	case reflect.Map:
		return m.partitions(t.Elem())
	case reflect.Struct:
		return m.fields(t)
	}
	return nil, fmt.Errorf("%v: has no schema", t)
}

// partitions returns the schema of the map of partitions. It refuses the names that
// partition.Name.Check refuses, but for null, which removes a type of OpenShift's pinning
// file.
func (m maker) partitions(t reflect.Type) (object, error) {
	section, err := m.of(t)
	return object{
		"type": "object", "maxProperties": maxWorkloads, "additionalProperties": isNull,
		"properties":        object{"system": isNull, "default": isNull, "burstable": isNull, "besteffort": isNull},
		"patternProperties": object{"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$": orNull(section), "pod": isNull},
	}, err
}

// fields returns the schema of a struct.
func (m maker) fields(t reflect.Type) (object, error) {
	properties := object{}
	if err := m.add(properties, t); err != nil {
		return nil, err
	}
	o := object{"type": "object", "additionalProperties": false, "properties": properties}
	if _, isSection := properties["memoryLimit"]; !isSection {
		return o, nil
	}
	percentage := object{
		"required":   []any{"memoryLimit"},
		"properties": object{"memoryLimit": object{"type": "string", "pattern": "%$"}},
	}
	without := func(field string) object { return object{"properties": object{field: isNull}} }
	o["allOf"] = []any{
		object{"anyOf": []any{without("memoryLimitMin"), percentage}},
		object{"anyOf": []any{without("memoryLimitMax"), percentage}},
	}
	if _, isWorkload := properties["partition"]; !isWorkload {
		o["anyOf"] = []any{
			object{"additionalProperties": isNull}, // switched off
			object{"required": []any{"namespaces"}, "properties": object{"namespaces": object{"type": "array", "minItems": 1}}},
		}
	}
	return o, nil
}

// add adds the fields of a struct, with the fields of embedded structs.
func (m maker) add(properties object, t reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if err := m.add(properties, f.Type); err != nil {
				return err
			}
			continue
		}
		value, err := m.of(f.Type)
		if err != nil {
			return err
		}
		comment := m.comments[t.Name()+"."+f.Name]
		if comment == "" {
			return fmt.Errorf("%s.%s: has no comment, which is the description", t.Name(), f.Name)
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		described := object{"description": comment}
		if name != "apiVersion" && name != "kind" {
			value = orNull(value)
		}
		for key, v := range value {
			described[key] = v
		}
		properties[name] = described
	}
	return nil
}

// fieldComments returns the comments of the fields of structs in a package, on one line.
func fieldComments(folder string) (map[string]string, error) {
	comments := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), folder+"/document.go", nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
		}
		return false
	})
	return comments, nil
}
