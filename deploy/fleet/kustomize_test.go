package fleet

import (
	"slices"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestKustomize: kustomize builds each folder. TestKustomizeFill compares the files in them with
// the chart.
func TestKustomize(t *testing.T) {
	t.Parallel()
	base := []string{
		"ClusterRole/node-partition-dispatcher",
		"ClusterRoleBinding/node-partition-dispatcher",
		"ConfigMap/node-partition",
		"ConfigMap/node-partition-section",
		"Namespace/node-partition",
		"Role/node-partition-dispatcher",
		"Role/node-partition-lock",
		"RoleBinding/node-partition-dispatcher",
		"RoleBinding/node-partition-lock",
		"ServiceAccount/node-partition-dispatcher",
		"ServiceAccount/node-partition-node",
		"ValidatingAdmissionPolicy/node-partition-dispatcher-jobs",
		"ValidatingAdmissionPolicy/node-partition-dispatcher-nodes",
		"ValidatingAdmissionPolicyBinding/node-partition-dispatcher-jobs",
		"ValidatingAdmissionPolicyBinding/node-partition-dispatcher-nodes",
	}
	for folder, beside := range map[string]string{
		"base":      "",
		"roll":      "Job/node-partition-roll",
		"uninstall": "Job/node-partition-uninstall",
		"later":     "CronJob/node-partition-add",
	} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kustomize/"+folder)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		got := make([]string, 0, built.Size())
		for _, r := range built.Resources() {
			name := r.GetName()
			if len(name) > len(sectionMap) && name[:len(sectionMap)] == sectionMap {
				name = "node-partition-section" // and the hash of the section
			}
			got = append(got, r.GetKind()+"/"+name)
		}
		slices.Sort(got)
		want := slices.Clone(base)
		if beside != "" {
			want = append(want, beside)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", folder, got, want)
		}
	}
}

// sectionMap begins the name of the ConfigMap with the section.
const sectionMap = "node-partition-section-"
