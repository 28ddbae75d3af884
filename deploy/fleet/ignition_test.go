package fleet

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	machineconfigv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the files that are made from others")

// written compares a file with what it is made from, or writes it.
func written(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Errorf("%s is not what its sources give: go -C deploy/fleet test -run Written . -update", path)
	}
}

// butane has the fields of Butane that node-partition.bu uses.
type butane struct {
	Variant, Version string
	Storage          struct {
		Files []struct {
			Path     string
			Mode     int
			Contents struct {
				Inline, Source, Local string
				Verification          struct{ Hash string }
			}
		}
		Links []struct{ Path, Target string }
	}
	Systemd struct {
		Units []struct {
			Name    string
			Enabled bool
		}
	}
}

// TestIgnitionWritten: the JSON follows from the Butane file.
func TestIgnitionWritten(t *testing.T) {
	t.Parallel()
	b := strict[butane](t, read(t, "ignition/node-partition.bu"))
	files := make([]map[string]any, 0, len(b.Storage.Files))
	links := make([]map[string]any, 0, len(b.Storage.Links))
	units := make([]map[string]any, 0, len(b.Systemd.Units))
	for _, f := range b.Storage.Files {
		contents := map[string]any{"source": f.Contents.Source}
		text := f.Contents.Inline
		if f.Contents.Local != "" {
			text = read(t, filepath.Join("ignition", f.Contents.Local))
		}
		if text != "" {
			contents["source"] = "data:," + dataurl.EscapeString(text)
		}
		if f.Contents.Verification.Hash != "" {
			contents["verification"] = map[string]any{"hash": f.Contents.Verification.Hash}
		}
		files = append(files, map[string]any{"path": f.Path, "mode": f.Mode, "contents": contents})
	}
	for _, l := range b.Storage.Links {
		links = append(links, map[string]any{"path": l.Path, "target": l.Target})
	}
	for _, u := range b.Systemd.Units {
		units = append(units, map[string]any{"name": u.Name, "enabled": u.Enabled})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{
		"ignition": map[string]any{"version": "3.3.0"},
		"storage":  map[string]any{"files": files, "links": links},
		"systemd":  map[string]any{"units": units},
	})
	if err != nil {
		t.Fatal(err)
	}
	written(t, "ignition/node-partition.ign", text.String())
}

// parsed returns a configuration as Ignition's parser reads it. It may have no error and no
// warning, as of a field that is unknown.
func parsed(t *testing.T, raw []byte) types.Config {
	t.Helper()
	config, report, err := ignition.ParseCompatibleVersion(raw)
	if err != nil || len(report.Entries) > 0 {
		t.Fatalf("%v\n%s\n%s", err, report.String(), raw)
	}
	return config
}

// contents returns what a configuration writes to a path.
func contents(t *testing.T, config types.Config, path string) []byte {
	t.Helper()
	for _, f := range config.Storage.Files {
		if f.Path != path {
			continue
		}
		decoded, err := dataurl.DecodeString(*f.Contents.Source)
		if err != nil {
			t.Fatal(err)
		}
		return decoded.Data
	}
	t.Fatalf("nothing writes %s", path)
	return nil
}

// ignitionFile returns what the Ignition configuration writes to a path.
func ignitionFile(t *testing.T, path string) []byte {
	t.Helper()
	return contents(t, parsed(t, []byte(read(t, "ignition/node-partition.ign"))), path)
}

// TestIgnition: the first boot finds what TestSysext boots with: the image, the link by whose name
// systemd-sysext knows the extension, the section, and the unit that merges it.
func TestIgnition(t *testing.T) {
	t.Parallel()
	config := parsed(t, []byte(read(t, "ignition/node-partition.ign")))
	if len(config.Storage.Links) != 1 || len(config.Systemd.Units) != 1 {
		t.Fatalf("want one link and one unit: %+v", config)
	}
	link := config.Storage.Links[0]
	if link.Path != "/var/lib/extensions/node-partition.raw" || link.Hard != nil && *link.Hard {
		t.Errorf("the link is %s", link.Path)
	}
	var image types.File
	for _, f := range config.Storage.Files {
		if f.Path == *link.Target {
			image = f
		}
	}
	if image.Contents.Source == nil || image.Contents.Verification.Hash == nil || !strings.HasSuffix(*image.Contents.Source, filepath.Base(image.Path)) {
		t.Errorf("the link leads to %s, which no file with a sum is", *link.Target)
	}
	unit := config.Systemd.Units[0]
	if unit.Name != "systemd-sysext.service" || unit.Enabled == nil || !*unit.Enabled {
		t.Errorf("the unit is %+v", unit)
	}
	// The commands of docs/install.md make the same state on a node that runs, and the test of the
	// system extension runs them.
	page := read(t, "../../docs/install.md")
	for _, command := range []string{
		"ln -sfn " + *link.Target + " " + link.Path,
		"systemctl enable " + unit.Name,
	} {
		if !strings.Contains(page, "\n    "+command) {
			t.Errorf("docs/install.md does not have: %s", command)
		}
	}
}

// machineConfigPath is the file for OpenShift.
const machineConfigPath = "machineconfig/machineconfig.yaml"

// TestMachineConfig: the types of OpenShift take the object, and Ignition's parser reads the
// configuration. It has the files beside it, and it is below the size that an object of the API
// server may have.
func TestMachineConfig(t *testing.T) {
	t.Parallel()
	text := read(t, machineConfigPath)
	object := strict[machineconfigv1.MachineConfig](t, text)
	if object.APIVersion != machineconfigv1.GroupVersion.String() || object.Kind != "MachineConfig" ||
		object.Labels[machineconfigv1.MachineConfigRoleLabelKey] != "worker" {
		t.Errorf("%+v", object)
	}
	config := parsed(t, object.Spec.Config.Raw)
	for path, source := range map[string]string{sectionPath: "section.yaml", "/etc/node-partition/install.sh": "install.sh"} {
		if string(contents(t, config, path)) != read(t, "machineconfig/"+source) {
			t.Errorf("%s is not %s", path, source)
		}
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes", len(text))
	}
}

// TestMachineConfigWritten: the MachineConfig has the files beside it.
func TestMachineConfigWritten(t *testing.T) {
	t.Parallel()
	lines := strings.Split(read(t, machineConfigPath), "\n")
	source := ""
	for i, line := range lines {
		if _, name, found := strings.Cut(line, " # "); found && strings.Contains(line, "- path: ") {
			source = name
		}
		if before, _, found := strings.Cut(line, "source: data:"); found && source != "" {
			lines[i] = before + "source: " + dataurl.EncodeBytes([]byte(read(t, "machineconfig/"+source)))
			source = ""
		}
	}
	written(t, machineConfigPath, strings.Join(lines, "\n"))
	if _, err := yaml.YAMLToJSON([]byte(read(t, machineConfigPath))); err != nil {
		t.Fatal(err)
	}
}
