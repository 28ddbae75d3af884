package fieldgen

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type source struct {
	Name  string            `json:"name,omitempty"`
	Flag  *bool             `json:"flag"`
	Gates map[string]bool   `json:"gates"`
	Wait  time.Duration     `json:"wait"`
	Deep  []map[string]int8 `json:"deep" yaml:"other"`
}

func TestStruct(t *testing.T) {
	got, err := Struct("p", "T", "// T is cut out.", reflect.TypeFor[source](), "Deep", "Name", "Flag")
	want := `package p

// T is cut out.
type T struct {
	Name string            ` + "`json:\"name,omitempty\"`" + `
	Flag *bool             ` + "`json:\"flag\"`" + `
	Deep []map[string]int8 ` + "`json:\"deep\"`" + `
}
`
	if err != nil || !strings.HasSuffix(string(got), want) || !strings.HasPrefix(string(got), "// Code generated from nodepartition/") {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestStructErrors(t *testing.T) {
	for field, want := range map[string]string{
		"Gone": "has no field Gone; was it renamed or removed?",
		"Wait": "type time.Duration needs an import",
	} {
		if _, err := Struct("p", "T", "", reflect.TypeFor[source](), field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
}
