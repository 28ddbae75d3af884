package evict

import (
	"reflect"
	"strings"
	"testing"
)

// TestNewMissing: a missing option is an error at the start, which names it, and not a nil call in
// the middle of an eviction.
func TestNewMissing(t *testing.T) {
	bubble(t, func(n *node) {
		for _, field := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
			if field.Anonymous || !field.IsExported() {
				continue
			}
			o := n.options()
			reflect.ValueOf(&o).Elem().FieldByIndex(field.Index).SetZero()
			_, err := New(o)
			if optional := field.Name == "Burst"; optional != (err == nil) || err != nil && !strings.Contains(err.Error(), field.Name) {
				n.t.Errorf("without %s: %v", field.Name, err)
			}
		}
		o := n.options()
		o.Partition = "default"
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), `"default"`) {
			n.t.Errorf("of the default partition: %v", err)
		}
	})
}
