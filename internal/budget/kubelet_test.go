package budget

import (
	"reflect"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// TestKubeletFields compares the fields of Kubelet with those of the kubelet's type.
func TestKubeletFields(t *testing.T) {
	t.Parallel()
	testkit.CompareWithKubelet(t, reflect.TypeFor[Kubelet](), func(got reflect.StructField, want *reflect.StructField) {
		if got.Type != reflect.TypeFor[[]MemoryReservation]() { // with values that are not parsed yet
			return
		}
		limits, _ := want.Type.Elem().FieldByName("Limits")
		if ours := got.Type.Elem().Field(0); limits.Tag.Get("json") != ours.Tag.Get("json") {
			t.Errorf("%s of an element has the tag %s, want %s", ours.Name, ours.Tag, limits.Tag)
		}
		want.Type = got.Type
	})
}
