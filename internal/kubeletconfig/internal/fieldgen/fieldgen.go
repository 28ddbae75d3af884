// Package fieldgen makes Go source for a struct with some of the fields of another one: same names, same Go types,
// same JSON names. It exists so that a program can decode part of a type without linking the package of that type.
package fieldgen

import (
	"bytes"
	"fmt"
	"go/format"
	"reflect"
)

// Struct returns the source of a file of package pkg that declares the struct type name with the given fields of
// the struct type source, in the order of source. Fields must exist and have types that need no import.
func Struct(pkg, name, doc string, source reflect.Type, fields ...string) ([]byte, error) {
	want := map[string]bool{}
	for _, f := range fields {
		want[f] = true
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated from %s.%s; DO NOT EDIT.\n\npackage %s\n\n%s\ntype %s struct {\n", source.PkgPath(), source.Name(), pkg, doc, name)
	for i := range source.NumField() {
		f := source.Field(i)
		if !want[f.Name] {
			continue
		}
		delete(want, f.Name)
		if imported(f.Type) {
			return nil, fmt.Errorf("%s.%s: type %s needs an import; only predeclared types, their pointers, slices and maps are supported", source, f.Name, f.Type)
		}
		fmt.Fprintf(&b, "\t%s %s `json:%q`\n", f.Name, f.Type, f.Tag.Get("json"))
	}
	for f := range want {
		return nil, fmt.Errorf("%s: has no field %s; was it renamed or removed?", source, f)
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

// imported reports whether the name of a type mentions a package.
func imported(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return imported(t.Elem())
	case reflect.Map:
		return imported(t.Key()) || imported(t.Elem())
	default:
		return t.PkgPath() != "" || t.Kind() == reflect.Struct || t.Kind() == reflect.Interface || t.Kind() == reflect.Func
	}
}
