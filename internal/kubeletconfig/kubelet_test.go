package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"nodepartition/internal/kubeletconfig/internal/fieldgen"
)

var update = flag.Bool("update", false, "write kubelet_generated.go instead of comparing with it")

const generatedFile = "kubelet_generated.go"

// usedFields are the fields of the kubelet's configuration that bear on the partition.
var usedFields = []string{"CgroupDriver", "CgroupsPerQOS", "CgroupRoot", "CPUManagerPolicy", "ReservedSystemCPUs", "FeatureGates"}

const generatedDoc = `// Kubelet holds the fields of the kubelet's configuration that bear on the system partition. Defaults are not
// applied: an absent field keeps its zero value. It is cut out of the kubelet's own type, which is not linked into
// the generator: the packages that it imports take longer to initialise than the generator takes in all
// (docs/performance.md).`

// TestKubeletIsGenerated holds Kubelet to the kubelet's type: with another version of k8s.io/kubelet, a field that is
// gone or has another type or name fails here. "go generate ./internal/kubeletconfig" writes it anew.
func TestKubeletIsGenerated(t *testing.T) {
	want, err := fieldgen.Struct("kubeletconfig", "Kubelet", generatedDoc, reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), usedFields...)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(generatedFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(generatedFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what k8s.io/kubelet says; run go generate and look at the difference\n%s", generatedFile, want)
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

// FuzzKubelet decodes the same fields onto Kubelet and onto the kubelet's own type.
func FuzzKubelet(f *testing.F) {
	f.Add("systemd", true, "/", "static", "0-3", "NodeSystemPartition")
	f.Add("", false, "", "", "", "")
	f.Fuzz(func(t *testing.T, driver string, perQOS bool, root, policy, reserved, gate string) {
		data, err := json.Marshal(map[string]any{
			"cgroupDriver": driver, "cgroupsPerQOS": perQOS, "cgroupRoot": root, "cpuManagerPolicy": policy,
			"reservedSystemCPUs": reserved, "featureGates": map[string]bool{gate: perQOS},
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
		for _, name := range usedFields {
			got, want := reflect.ValueOf(ours).FieldByName(name).Interface(), reflect.ValueOf(theirs).FieldByName(name).Interface()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, the kubelet's type has %v", name, got, want)
			}
		}
	})
}
