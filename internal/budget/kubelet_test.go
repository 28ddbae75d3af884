package budget

import (
	"reflect"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// TestKubeletFields compares the fields of Kubelet with those of the kubelet's type. It fails if
// another version of k8s.io/kubelet has removed or renamed a field or changed its type.
func TestKubeletFields(t *testing.T) {
	t.Parallel()
	ours, theirs := reflect.TypeFor[Kubelet](), reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()
	for i := range ours.NumField() {
		got := ours.Field(i)
		want, ok := theirs.FieldByName(got.Name)
		if !ok {
			t.Errorf("%s has no field %s; was it renamed or removed?", theirs, got.Name)
			continue
		}
		if got.Type == reflect.TypeFor[[]MemoryReservation]() { // with values that are not parsed yet
			limits, _ := want.Type.Elem().FieldByName("Limits")
			if ours := got.Type.Elem().Field(0); limits.Tag.Get("json") != ours.Tag.Get("json") {
				t.Errorf("%s of an element has the tag %s, want %s", ours.Name, ours.Tag, limits.Tag)
			}
			want.Type = got.Type
		}
		if got.Type != want.Type || got.Tag.Get("json") != want.Tag.Get("json") {
			t.Errorf("%s is %s `json:%q`, want %s `json:%q`", got.Name, got.Type, got.Tag.Get("json"), want.Type, want.Tag.Get("json"))
		}
	}
}
