package charttest

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	v1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write the expected files and the part of the schema that is made from another one")

// TestLint: helm lint has nothing to warn of, with the default values and with all others.
func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{"default": "{}", "least": least, "full": full} {
		for _, m := range lint.All(chartDir, parse(t, values), "node-partition", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestGolden: the files in testdata have the manifests of two sets of values.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{"least": least, "full": full} {
		file := filepath.Join("testdata", name+".yaml")
		got := strings.Join(manifests(t, values, 1), "\n---\n") + "\n"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; go test . -run Golden -update, and read the difference:\n%s", file, firstDifference(got, string(want)))
		}
	}
}

// firstDifference returns the first line that differs in two texts.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %s\nwant: %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// TestRefused: values that the schema or a template refuses. Nothing is rendered then, so that Helm
// makes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	const head = "image: {repository: registry.example/node-partition-installer}\n"
	section := func(text string) string { return head + "section: " + text + "\n" }
	file := func(text string) string {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return head + "sectionFile: " + string(quoted) + "\n"
	}
	for _, c := range []struct{ name, values, want string }{
		{"no image", "section: {systemPartition: {namespaces: [kube-system]}}", "image.repository: set it to the name of the image"},
		{"no section", head, "section and sectionFile are both empty: set one of them"},
		{"both", least + "sectionFile: \"systemPartition: {namespaces: [kube-system]}\"", "are both set: set one of them"},
		{"unknown value", least + "rol: {}", "additional properties 'rol' not allowed"},
		{"unknown value of a roll", least + "roll: {share: 5}", "additional properties 'share' not allowed"},
		{"no node at a time", least + "roll: {nodes: 0}", "at '/roll/nodes'"},
		{"no share", least + "roll: {nodes: 0%}", "at '/roll/nodes'"},
		{"more than all", least + "roll: {nodes: 101%}", "at '/roll/nodes'"},
		{"a negative number of failures", least + "roll: {maxFailures: -1}", "at '/roll/maxFailures'"},
		{"a time without a unit", least + "roll: {trial: \"10\"}", "at '/roll/trial'"},
		{"no time for a trial", least + "roll: {trial: 0m}", "at '/roll/trial'"},
		{"a trial that is too short", least + "roll: {trial: 59s}", "roll.trial: 59s: want 1m to 24h"},
		{"a trial that is too long", least + "roll: {trial: 25h}", "roll.trial: 25h: want 1m to 24h"},
		{"a deadline before the end of the trial", least + "roll: {trial: 30m}", "roll.deadline: 30m is not longer than roll.trial, 30m"},
		{"the control plane first", least + "roll: {controlPlane: first}", "at '/roll/controlPlane'"},
		{"an unknown runtime", least + "roll: {nri: docker}", "at '/roll/nri'"},
		{"an option with a space", least + "monitorArgs: [\"--listen=a b\"]", "at '/monitorArgs/0'"},
		{"an option with a quote", least + "monitorArgs: ['--listen=\"']", "at '/monitorArgs/0'"},
		{"a word that is not an option", least + "monitorArgs: [run]", "at '/monitorArgs/0'"},
		{"a tag in the name", "image: {repository: \"a/b:v1\"}", "at '/image/repository'"},
		{"half a digest", "image: {repository: a/b, digest: \"sha256:12\"}", "at '/image/digest'"},
		{"a privileged profile", least + "nodePods: {appArmorProfile: Localhost}", "at '/nodePods/appArmorProfile'"},
		{"a schedule of four fields", least + "laterNodes: {schedule: \"* * * *\"}", "at '/laterNodes/schedule'"},
		{"a toleration of an unknown field", least + "nodePods: {tolerations: [{operater: Exists}]}", "additional properties 'operater' not allowed"},
		{"a limit without namespaces", section("{systemPartition: {memoryLimit: 2Gi}}"), "at '/section/systemPartition'"},
		{"an unknown field of the section", section("{systemPartition: {namespaces: [kube-system], memorylimit: 2Gi}}"), "'memorylimit' not allowed"},
		{"an unknown section", section("{partition: {}}"), "additional properties 'partition' not allowed"},
		{"a limit without a unit that exists", section("{systemPartition: {namespaces: [kube-system], memoryLimit: 4GB}}"), "at '/section/systemPartition/memoryLimit'"},
		{"a file that is not YAML", file("a: b: c"), "sectionFile: this is not YAML"},
		{"a file with an unknown field", file("systemPartition: {namespaces: [a]}\nsystemPartitions: {}"), `sectionFile: unknown field "systemPartitions"`},
		{"a file without a section", file("kind: KubeletConfiguration"), "sectionFile: there is neither systemPartition nor workloadPartitions"},
		{"a file with a limit without namespaces", file("systemPartition: {memoryLimit: 2Gi}"), "sectionFile: systemPartition has no namespaces"},
	} {
		_, err := release(t, c.values, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

// TestSection: the nodes get the text of a file byte for byte, and a text of structured values that
// has what the program asks for. Its name and its label have the hash of its bytes.
func TestSection(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		least: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsystemPartition:\n  memoryLimit: 2Gi\n  namespaces:\n  - kube-system\n",
		full:  parse(t, full)["sectionFile"].(string),
	} {
		all := decode(t, name)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(want)))[:12]
		mounted, found := all.configMaps["node-partition-section-"+hash]
		if !found {
			t.Fatalf("no ConfigMap has the name of the hash %s: %q", hash, slices.Sorted(maps.Keys(all.configMaps)))
		}
		if mounted.Immutable == nil || !*mounted.Immutable {
			t.Error("the ConfigMap of the section can be changed while a Job has it")
		}
		for _, got := range []string{mounted.Data["section.yaml"], all.configMaps["node-partition"].Data["section.yaml"]} {
			if got != want {
				t.Errorf("%q\nwant %q", got, want)
			}
		}
		pod := all.node["job.yaml"].Spec.Template
		if got := pod.Labels["node-partition.io/section"]; got != hash {
			t.Errorf("the pods have the label %s, want %s", got, hash)
		}
		if got := volume(t, pod.Spec, "section").ConfigMap.Name; got != mounted.Name {
			t.Errorf("the pods mount %s, want %s", got, mounted.Name)
		}
	}
}

// volume returns a volume of a pod.
func volume(t *testing.T, pod v1.PodSpec, name string) v1.Volume {
	t.Helper()
	i := slices.IndexFunc(pod.Volumes, func(v v1.Volume) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("the pod has no volume %s", name)
	}
	return pod.Volumes[i]
}

// TestUpgradeWithTheSameValues: an upgrade with the values of before differs in the number that
// begins another roll, and in nothing else. A node finds the version and section that it has.
func TestUpgradeWithTheSameValues(t *testing.T) {
	t.Parallel()
	before, after := manifests(t, full, 1), manifests(t, full, 2)
	if len(before) != len(after) {
		t.Fatalf("%d manifests, and %d after an upgrade", len(before), len(after))
	}
	changed := 0
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		changed++
		if strings.ReplaceAll(before[i], "--revision=1", "--revision=2") != after[i] {
			t.Errorf("an upgrade changes more than the revision: %s", firstDifference(after[i], before[i]))
		}
	}
	if changed != 3 {
		t.Errorf("%d manifests have the revision, want the Jobs of roll, uninstall and add", changed)
	}
}

// TestHooks: when Helm runs the dispatcher, and which of its Jobs stay with their logs.
func TestHooks(t *testing.T) {
	t.Parallel()
	all := decode(t, full)
	want := map[string]string{"node-partition-roll": "post-install,post-upgrade,post-rollback", "node-partition-uninstall": "pre-delete"}
	if got := slices.Sorted(maps.Keys(all.jobs)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("Jobs %q", got)
	}
	for name, when := range want {
		job := all.jobs[name]
		if got := job.Annotations["helm.sh/hook"]; got != when {
			t.Errorf("%s runs %s, want %s", name, got, when)
		}
		// Without hook-failed the Job of a failure stays, and with it its pod and its log.
		if got := job.Annotations["helm.sh/hook-delete-policy"]; got != "before-hook-creation,hook-succeeded" {
			t.Errorf("%s is deleted: %s", name, got)
		}
		action := strings.TrimPrefix(name, "node-partition-")
		if got := job.Spec.Template.Spec.Containers[0].Args[0]; got != action {
			t.Errorf("%s runs %s", name, got)
		}
	}
	if len(all.cronJobs) != 1 || all.cronJobs[0].Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args[0] != "add" {
		t.Errorf("the schedule for later nodes: %+v", all.cronJobs)
	}
	if all := decode(t, least); len(all.cronJobs) != 0 {
		t.Error("there is a schedule for later nodes that was not asked for")
	}
}

// TestSettings: the settings that the dispatcher reads are the values.
func TestSettings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]any{
		least: {
			"version": "v0.0.0", "selector": "", "nodes": "1", "maxFailures": 0.0, "pools": []any{}, "controlPlane": false,
			"pause": "1m", "trial": "10m", "nri": "none", "monitorArgs": "",
		},
		full: {
			"version": "v0.0.0", "selector": "pool=general", "nodes": "10%", "maxFailures": 2.0,
			"pools": []any{"canary=true", "zone in (a, b)"}, "controlPlane": "last", "pause": "0s", "trial": "20m", "nri": "containerd",
			"monitorArgs": "--listen=0.0.0.0:9948 --node-status",
		},
	} {
		got := parse(t, decode(t, name).configMaps["node-partition"].Data["roll.yaml"])
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	}
}
