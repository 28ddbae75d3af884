package charttest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kustomizeDir is the base for kustomize, which is made from the chart.
const kustomizeDir = "../../fleet/kustomize"

// based holds the values of the base. fill.sh replaces the image, its version and the section.
const based = `
image: {repository: registry.example/node-partition-installer}
sectionFile: |
  apiVersion: kubelet.config.k8s.io/v1beta1
  kind: KubeletConfiguration
  systemPartition:
    namespaces: [kube-system]
    memoryLimit: 12%
    memoryLimitMin: 1Gi
laterNodes: {enabled: true}
`

// kustomized has the file of kustomize for each template.
var kustomized = map[string]string{
	"configmap.yaml": "base", "policy.yaml": "base", "rbac.yaml": "base",
	"roll.yaml": "roll", "uninstall.yaml": "uninstall", "add.yaml": "later",
}

// header begins each file that is made from the chart, in place of the comments of the template.
const header = "# Written from the chart: go -C deploy/chart/charttest test -run Written . -update\n"

// ofHelm matches what only Helm reads, and comments.
var ofHelm = regexp.MustCompile(`(?m)^ +annotations:\n( +helm\.sh/hook.*\n)+|^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ *#.*\n`)

// forKustomize renders the chart for some values, without what only Helm reads, by the files of
// kustomize.
func forKustomize(t *testing.T, values string, revision int) map[string]string {
	t.Helper()
	rendered, err := release(t, values, revision)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for name, text := range rendered {
		name = filepath.Base(name)
		if folder, known := kustomized[name]; known {
			text = strings.ReplaceAll(text, "instance: fleet", "instance: node-partition")
			text = strings.ReplaceAll(text, "--release=node-partition/fleet", "--release=node-partition/node-partition")
			files[folder+"/"+name] = header + strings.TrimSpace(ofHelm.ReplaceAllString(text, "")) + "\n"
		} else if name != "NOTES.txt" {
			t.Errorf("no file of kustomize is for the template %s", name)
		}
	}
	if len(files) != len(kustomized) {
		t.Errorf("the chart has no longer all templates of kustomize: %q", slices.Sorted(maps.Keys(files)))
	}
	return files
}

// TestKustomizeWritten: the base for kustomize has what the chart renders.
func TestKustomizeWritten(t *testing.T) {
	t.Parallel()
	for name, got := range forKustomize(t, based, 1) {
		path := filepath.Join(kustomizeDir, name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; go test . -run Written -update: %s", path, firstDifference(got, string(want)))
		}
	}
}

// TestKustomizeFill: fill.sh makes the objects that the chart renders for the same image, version,
// section and revision.
func TestKustomizeFill(t *testing.T) {
	t.Parallel()
	const (
		image   = "registry.example:5000/infra/node-partition-installer"
		digest  = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		section = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n# \"kept\" <byte> for \\byte & \\n |; ü\n" +
			"\nsystemPartition: {namespaces: [kube-system, 'a'], memoryLimit: 12%}\n"
	)
	values, err := yaml.Marshal(map[string]any{
		"image": map[string]any{"repository": image, "digest": digest}, "sectionFile": section,
		"laterNodes": map[string]any{"enabled": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "section.yaml"), filepath.Join(dir, "fleet")
	if err := os.WriteFile(file, []byte(section), 0o644); err != nil {
		t.Fatal(err)
	}
	// The version of the chart in the tree.
	if out, err := exec.Command(kustomizeDir+"/fill.sh", folder, image+"@"+digest, "v0.0.0", file, "7").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range forKustomize(t, string(values), 7) {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		a, b := documents(t, string(got)), documents(t, want)
		for i := range min(len(a), len(b)) {
			if !reflect.DeepEqual(a[i], b[i]) {
				t.Errorf("%s: %s", name, firstDifference(indented(t, a[i]), indented(t, b[i])))
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s has %d objects, want %d", name, len(a), len(b))
		}
	}
	// Another version is in each place of the version.
	folder = filepath.Join(dir, "next")
	if out, err := exec.Command(kustomizeDir+"/fill.sh", folder, image, "v1.2.3-rc.1+x"+strings.Repeat(".x", 26)+"y", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name := range forKustomize(t, based, 1) {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || strings.Contains(string(got), "v0.0.0") || strings.Contains(string(got), "registry.example/") {
			t.Errorf("%s has the image or the version of before: %v\n%s", name, err, got)
		}
		for line := range strings.Lines(string(got)) {
			if is, want := strings.TrimSpace(line), `app.kubernetes.io/version: "v1.2.3-rc.1_x`+strings.Repeat(".x", 25)+`"`; strings.Contains(is, "kubernetes.io/version") && is != want {
				t.Errorf("%s: %s; want %s", name, is, want)
			}
		}
	}
}

// TestKustomizeFillRefuses: what fill.sh cannot write is refused, and no folder is made.
func TestKustomizeFillRefuses(t *testing.T) {
	t.Parallel()
	const good = "systemPartition: {namespaces: [kube-system]}\n"
	for _, c := range []struct{ name, image, version, section, revision, want string }{
		{"an image with a space", "a b", "v1.0.0", good, "1", "image a b"},
		{"no image", "", "v1.0.0", good, "1", "image : want"},
		{"a version without v", "a/b:c", "1.0.0", good, "1", "version 1.0.0"},
		{"a version with a bar", "a/b:c", "v1|0", good, "1", "version v1|0"},
		{"no number", "a/b:c", "v1.0.0", good, "one", "revision one"},
		{"no newline", "a/b:c", "v1.0.0", strings.TrimSpace(good), "1", "want a newline at its end"},
		{"a tab", "a/b:c", "v1.0.0", "a:\tb\n", "1", "control character"},
	} {
		dir := t.TempDir()
		file, folder := filepath.Join(dir, "section.yaml"), filepath.Join(dir, "fleet")
		if err := os.WriteFile(file, []byte(c.section), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(kustomizeDir+"/fill.sh", folder, c.image, c.version, file, c.revision).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s", c.name, err, out)
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("%s: a folder was made: %v", c.name, err)
		}
	}
}

// documents decodes the documents of a file.
func documents(t *testing.T, text string) []any {
	t.Helper()
	var all []any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(fmt.Errorf("%w\n%s", err, document))
		}
		all = append(all, object)
	}
	return all
}

func indented(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
