package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// writtenFiles has the fields of write_files in cloud-config.
type writtenFiles struct {
	WriteFiles []struct{ Path, Owner, Permissions, Content string } `json:"write_files"`
}

// sectionIn returns the section that cloud-config writes.
func sectionIn(t *testing.T, cloudConfig string) string {
	t.Helper()
	var config writtenFiles
	if err := yaml.Unmarshal([]byte(cloudConfig), &config); err != nil {
		t.Fatal(err)
	}
	for _, f := range config.WriteFiles {
		if f.Path == sectionPath {
			return f.Content
		}
	}
	t.Fatalf("nothing writes %s:\n%s", sectionPath, cloudConfig)
	return ""
}

// sectionPath is the file that the programs watch.
const sectionPath = "/etc/kubernetes/node-partition.yaml"

// read returns the content of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// strict decodes YAML. A field that the type does not have is an error.
func strict[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return value
}

// TestSections: "partition-monitor validate" of this tree takes each section in an example, without
// a warning.
func TestSections(t *testing.T) {
	t.Parallel()
	sections := map[string]string{
		"MachineConfig": read(t, "machineconfig/section.yaml"),
		"Plan":          read(t, "k3s/section.yaml"),
		"Cluster API":   sectionOfTemplate(t),
		"Karpenter":     sectionIn(t, partsOf(t, "text/cloud-config")[0]),
		"Ignition":      string(ignitionFile(t, sectionPath)),
	}
	for _, file := range []string{"cloud-init/user-data.yaml", "cloud-init/user-data-package.yaml"} {
		sections[file] = sectionIn(t, read(t, file))
	}
	defaults := strict[map[string]any](t, read(t, "ansible/roles/node_partition/defaults/main.yaml"))
	sections["Ansible"], _ = defaults["node_partition_section"].(string)

	monitor := filepath.Join(t.TempDir(), "partition-monitor")
	build := exec.Command("go", "build", "-o", monitor, "./cmd/partition-monitor")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, section := range sections {
		cmd := exec.Command(monitor, "validate", "--capacity=cpu=8,memory=32Gi", "-")
		cmd.Stdin = strings.NewReader(section)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), ": 0 errors, 0 warnings") {
			t.Errorf("%s: %v\n%s\n%s", name, err, section, out)
		}
	}
}
