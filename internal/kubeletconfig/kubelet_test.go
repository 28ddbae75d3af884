package kubeletconfig

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"node-partition.io/node-partition/tests/testkit"
)

// TestKubeletFields compares the fields of Kubelet with those of the kubelet's type.
func TestKubeletFields(t *testing.T) {
	ours := reflect.TypeFor[Kubelet]()
	testkit.CompareWithKubelet(t, ours, nil)
}

// TestKubeletFieldNames: the kubelet's type has the same names.
func TestKubeletFieldNames(t *testing.T) {
	var want []string
	for i := range reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().NumField() {
		tag := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().Field(i).Tag.Get("json")
		if name, _, _ := strings.Cut(tag, ","); name != "" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := KubeletFields(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestConstants(t *testing.T) {
	if want := kubeletv1beta1.SchemeGroupVersion.String(); APIVersion != want {
		t.Errorf("APIVersion is %q, the kubelet's %q", APIVersion, want)
	}
	if want := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().Name(); Kind != want {
		t.Errorf("Kind is %q, the kubelet's %q", Kind, want)
	}
}
