package schema

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
)

// manual is the manual page of the file. Its lists of fields are written by "make generate".
const manual = "../../man/node-partition.5"

// terms holds the term of the manual page for each type of a value, by its name. The section VALUES
// of the page explains them.
func terms() map[string]string {
	return map[string]string{
		"apiVersion":     "Sy " + kubeletconfig.APIVersion,
		"kind":           "Sy " + kubeletconfig.Kind,
		"namespaceName":  "Ar namespace",
		"otherPartition": "Sy system",
		"quantityText":   "Ar quantity",
		"limitText":      "Ar quantity | percentage",
		"thresholdText":  "Ar quantity | percentage",
		"reclaimText":    "Ar quantity | percentage",
		"durationText":   "Ar duration",
		"cpuList":        "Ar CPUs",
		"seconds":        "Ar seconds",
		"bool":           "Sy true | false",
	}
}

// lists returns the lists of fields of the manual page, in mdoc(7), in its order.
func lists(source string) ([]string, error) {
	comments, err := fieldComments(source)
	if err != nil {
		return nil, err
	}
	document := reflect.TypeFor[config.Document]()
	system, _ := document.FieldByName("SystemPartition")
	workloads, _ := document.FieldByName("WorkloadPartitions")
	var all []string
	for _, t := range []reflect.Type{document, system.Type.Elem(), workloads.Type.Elem().Elem()} {
		items, err := itemsOf(t, comments)
		if err != nil {
			return nil, err
		}
		all = append(all, items)
	}
	return all, nil
}

// itemsOf returns the fields of a struct, without fields of embedded structs, as items of a list.
func itemsOf(t reflect.Type, comments map[string]string) (string, error) {
	var items strings.Builder
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			continue
		}
		comment := comments[t.Name()+"."+f.Name]
		value, err := termOf(f.Type)
		if err != nil || comment == "" {
			return "", fmt.Errorf("%s.%s: %w, comment %q", t.Name(), f.Name, err, comment)
		}
		fmt.Fprintf(&items, ".It Sy %s : %s\n%s", jsonName(f), value, mdoc(comment))
	}
	return items.String(), nil
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// termOf returns the term for the values of a type.
func termOf(t reflect.Type) (string, error) {
	if term, ok := terms()[t.Name()]; ok {
		return term, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return termOf(t.Elem())
	case reflect.Slice:
		term, err := termOf(t.Elem())
		return "Bq " + term + " , ...", err
	case reflect.Map:
		return "Ar name : section , ...", nil
	case reflect.Struct:
		if t.NumField() == 1 { // a map with the one signal of a partition
			term, err := termOf(t.Field(0).Type)
			return "Sy " + jsonName(t.Field(0)) + " : " + term, err
		}
		return "Ar section", nil
	}
	return "", fmt.Errorf("%v: has no term", t)
}

// fieldName matches a name of a field in a comment, with the signs after it.
var fieldName = regexp.MustCompile(`^([a-z]+[A-Z][A-Za-z]*|cpuset)([.,:;]*)$`)

// sentence matches the end of a sentence, of which each begins a line in mdoc(7).
var sentence = regexp.MustCompile(`([.:]) ([A-Z0-9])`)

// mdoc returns a comment in mdoc(7), with the names of fields in bold.
func mdoc(comment string) string {
	var text strings.Builder
	for _, s := range strings.Split(sentence.ReplaceAllString(comment, "$1\n$2"), "\n") {
		line := ""
		flush := func() {
			if line != "" {
				text.WriteString(line + "\n")
			}
			line = ""
		}
		for _, word := range strings.Fields(s) {
			if match := fieldName.FindStringSubmatch(word); match != nil {
				flush()
				text.WriteString(strings.TrimSpace(".Sy "+match[1]+" "+strings.Join(strings.Split(match[2], ""), " ")) + "\n")
				continue
			}
			if len(line)+1+len(word) > 80 {
				flush()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		flush()
	}
	return text.String()
}

// TestManual: the lists of fields in the manual page are made from the types.
func TestManual(t *testing.T) {
	want, err := lists("../../pkg/slices/config")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	list := regexp.MustCompile(`(?s)(From pkg/slices/config[^\n]*\n\.Bl [^\n]*\n)(.*?)(\.El\n)`)
	made := list.ReplaceAllStringFunc(string(have), func(text string) string {
		match := list.FindStringSubmatch(text)
		if n++; n > len(want) {
			return text
		}
		return match[1] + want[n-1] + match[3]
	})
	if n != len(want) {
		t.Fatalf("%s has %d places for lists; want %d", manual, n, len(want))
	}
	if *update {
		if err := os.WriteFile(manual, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if made != string(have) {
		t.Errorf("man/node-partition.5 differs from the types: make generate writes it")
	}
	for _, m := range regexp.MustCompile(`(?:Ar|\|) ([a-zA-Z]+)`).FindAllStringSubmatch(strings.Join(want, ""), -1) {
		if term := m[1]; term != "false" && term != "section" && !strings.Contains(made, "\n.It Ar "+term+"\n") {
			t.Errorf("the section VALUES of %s does not explain %s", manual, term)
		}
	}
}
