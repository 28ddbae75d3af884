// Package charttest tests the chart of the controller with Helm's libraries: Helm itself is neither
// needed nor run.
package charttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	lint4 "helm.sh/helm/v4/pkg/chart/v2/lint"
	support4 "helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write rollout/install.yaml instead of comparing with it")

const (
	chartDir  = "../chart"
	installed = "../install.yaml"
	namespace = "node-partition"
)

// head of install.yaml: what Helm makes itself, or is told to.
const head = `# Written by go -C rollout/charttest test . -update: the chart with its default values.
apiVersion: v1
kind: Namespace
metadata:
  name: node-partition
  labels:
    # The pods of nodes mount two folders of the host.
    pod-security.kubernetes.io/enforce: privileged
`

// values returns the values of a file of ci, none for the default ones.
func values(t *testing.T, file string) map[string]any {
	t.Helper()
	set := map[string]any{}
	if file == "" {
		return set
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "ci", file))
	if err == nil {
		err = yaml.Unmarshal(text, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// render returns the manifests of the chart, in the order of the files' names.
func render(t *testing.T, set map[string]any) (string, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{Name: "node-partition", Namespace: namespace, Revision: 1, IsInstall: true}
	v, err := chartutil.ToRenderValues(c, set, options, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, v)
	if err != nil {
		return "", err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(files[name]) != "" {
			all = append(all, strings.TrimSpace(files[name]))
		}
	}
	return strings.Join(all, "\n---\n") + "\n", nil
}

// TestLint: helm lint of Helm 3 and 4 has nothing to warn of, with the default values and with
// those of ci.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "full-values.yaml"} {
		for _, m := range lint.All(chartDir, values(t, file), namespace, true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", file, m)
			}
		}
		for _, m := range lint4.RunAll(chartDir, values(t, file), namespace).Messages {
			if m.Severity >= support4.WarningSev {
				t.Errorf("Helm 4: %s: %v", file, m)
			}
		}
	}
}

// TestFull: testdata has the manifests with the values of ci, of which tests/e2e/kubeapi asks API
// servers.
func TestFull(t *testing.T) {
	t.Parallel()
	made, err := render(t, values(t, "full-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/full.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != made {
		t.Errorf("%v: %s differs: go -C rollout/charttest test . -update, and read the difference", err, file)
	}
}

// TestReadme: the table of the chart's README has each value with its default.
func TestReadme(t *testing.T) {
	t.Parallel()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `(.*?)` \\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	for name, value := range leaves("", c.Values) {
		if rows[name] != value {
			t.Errorf("README.md of the chart: %s is %q; want `%s`", name, rows[name], value)
		}
		delete(rows, name)
	}
	if len(rows) > 0 {
		t.Errorf("README.md of the chart has values that there are not: %q", rows)
	}
}

// leaves returns the values that have no fields, or none that the schema knows, as JSON.
func leaves(prefix string, of map[string]any) map[string]string {
	all := map[string]string{}
	for name, value := range of {
		fields, ok := value.(map[string]any)
		if ok && slices.Contains([]string{"image", "serviceAccount", "networkPolicy", "podMonitor", "nodePods"}, name) {
			maps.Copy(all, leaves(prefix+name+".", fields))
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // of YAML
		}
		all[prefix+name] = string(text)
	}
	return all
}

// TestInstall: install.yaml is the definition and the chart with its default values.
func TestInstall(t *testing.T) {
	t.Parallel()
	crd, err := os.ReadFile(filepath.Join(chartDir, "crds/nodepartitions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := head + "---\n" + string(crd) + "---\n" + strings.ReplaceAll(manifests, "managed-by: Helm", "managed-by: install.yaml")
	if *update {
		if err := os.WriteFile(installed, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(installed); err != nil || !bytes.Equal(have, []byte(made)) {
		t.Errorf("%v: rollout/install.yaml is not the chart: go -C rollout/charttest test . -update", err)
	}
}

// TestValues: each value is in the manifests, and an umbrella chart can switch this one off.
func TestValues(t *testing.T) {
	t.Parallel()
	set := values(t, "full-values.yaml")
	manifests, err := render(t, set)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"registry.example:5000/infra/node-partition@sha256:0123", "- name: registry", "name: partitions-rollout", "team: infra",
		"replicas: 2", "example.org/scrape: \"yes\"", "tier: system", "example.org/role: rollout", "priorityClassName: \"high\"",
		"kubernetes.io/os: linux", "name: NO_PROXY", `"seLinuxOptions": dyn({"type": dyn("spc_t")})`, `"appArmorProfile": dyn({"type": dyn("RuntimeDefault")})`,
		"--selinux-type=spc_t", ":partitions-rollout'",
	} {
		if !strings.Contains(manifests, want) {
			t.Errorf("the manifests do not have %q", want)
		}
	}
	for _, not := range []string{"kind: NetworkPolicy", "kind: ResourceQuota", "seLinuxOptions:", "helm.sh/hook"} {
		if strings.Contains(manifests, not) {
			t.Errorf("the manifests have %q", not)
		}
	}
	set["enabled"] = true
	if _, err := render(t, set); err != nil {
		t.Error(err)
	}
}

// TestRefused: values that the schema refuses.
func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{image: {repository: \"a/b:v1\"}}":        "repository",
		"{image: {digest: \"sha256:12\"}}":         "digest",
		"{image: {pullPolicy: Sometimes}}":         "pullPolicy",
		"{nodePods: {appArmorProfile: Localhost}}": "appArmorProfile",
		"{nodePods: {priorityClassName: \"a'b\"}}": "priorityClassName",
		"{nodePods: {seLinuxType: \"a'b\"}}":       "seLinuxType",
		"{replicas: -1}":                           "replicas",
		"{fullnameOverride: \"a b\"}":              "fullnameOverride",
		"{section: {systemPartition: {}}}":         "section",
		"{roll: {nodes: 5%}}":                      "roll",
	} {
		var set map[string]any
		if err := yaml.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", text, err, want)
		}
	}
}
