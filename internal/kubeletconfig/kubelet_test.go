package kubeletconfig

import (
	"encoding/json"
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

// FuzzKubelet decodes the same fields into Kubelet and into the kubelet's own type.
func FuzzKubelet(f *testing.F) {
	f.Add("systemd", true, "/", "static", "0-3", "NodeSystemPartition", "kube-reserved", "/kube.slice", "/system.slice")
	f.Add("", false, "", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, driver string, perQOS bool, root, policy, reserved, gate, enforced, kube, system string) {
		data, err := json.Marshal(map[string]any{
			"cgroupDriver": driver, "cgroupsPerQOS": perQOS, "cgroupRoot": root, "cpuManagerPolicy": policy,
			"reservedSystemCPUs": reserved, "featureGates": map[string]bool{gate: perQOS},
			"enforceNodeAllocatable": []string{"pods", enforced}, "kubeReservedCgroup": kube, "systemReservedCgroup": system,
		})
		if err != nil {
			t.Fatal(err)
		}
		var ours Kubelet
		var theirs kubeletv1beta1.KubeletConfiguration
		if err := json.Unmarshal(data, &ours); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Fatal(err)
		}
		for i := range reflect.TypeFor[Kubelet]().NumField() {
			name := reflect.TypeFor[Kubelet]().Field(i).Name
			got, want := reflect.ValueOf(ours).FieldByName(name).Interface(), reflect.ValueOf(theirs).FieldByName(name).Interface()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, the kubelet's type has %v", name, got, want)
			}
		}
	})
}
