package testkit

import (
	"reflect"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// CompareWithKubelet compares the fields of ours with those of the kubelet's configuration: names,
// types and tags. It fails if another version of k8s.io/kubelet has removed or renamed a field or
// changed its type. With except, it first calls that for each pair, which may give want another
// type.
func CompareWithKubelet(
	t *testing.T, ours reflect.Type, except func(got reflect.StructField, want *reflect.StructField),
) {
	t.Helper()
	theirs := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()
	for i := range ours.NumField() {
		got := ours.Field(i)
		want, ok := theirs.FieldByName(got.Name)
		if !ok {
			t.Errorf("%s has no field %s; was it renamed or removed?", theirs, got.Name)
			continue
		}
		if except != nil {
			except(got, &want)
		}
		if gotTag, wantTag := got.Tag.Get("json"), want.Tag.Get("json"); got.Type != want.Type || gotTag != wantTag {
			t.Errorf("%s is %s `json:%q`, want %s `json:%q`", got.Name, got.Type, gotTag, want.Type, wantTag)
		}
	}
}
