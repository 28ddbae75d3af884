package fleet

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/vincent-petithory/dataurl"
)

// userData has the fields of cloud-config that the example uses.
type userData struct {
	WriteFiles []struct{ Path, Owner, Permissions, Content string } `json:"write_files"`
	Runcmd     [][]string                                           `json:"runcmd"`
}

// ignitionFile is the configuration for a first boot of Flatcar or Fedora CoreOS, as Ignition's
// parser reads it. It may have no error and no warning, as of a field that is unknown.
func ignitionFile(t *testing.T) types.Config {
	t.Helper()
	config, report, err := ignition.ParseCompatibleVersion([]byte(read(t, "ignition/node-partition.ign")))
	if err != nil || len(report.Entries) > 0 {
		t.Fatalf("%v\n%s", err, report.String())
	}
	return config
}

// sections returns the section in each file.
func sections(t *testing.T) map[string]string {
	t.Helper()
	source, err := dataurl.DecodeString(*ignitionFile(t).Storage.Files[0].Contents.Source)
	if err != nil {
		t.Fatal(err)
	}
	inventory := strict[struct {
		All struct {
			Vars     map[string]string `json:"vars"`
			Children any               `json:"children"`
		} `json:"all"`
	}](t, read(t, "ansible/inventory.yaml"))
	return map[string]string{
		"cloud-init": strict[userData](t, read(t, "cloud-init/user-data.yaml")).WriteFiles[0].Content,
		"Ignition":   string(source.Data), "Ansible": inventory.All.Vars["node_partition_section"],
	}
}

// TestSections: "partition-monitor validate" of this tree takes each section in an example, without
// a warning.
func TestSections(t *testing.T) {
	t.Parallel()
	monitor := built(t, "partition-monitor")
	for name, section := range sections(t) {
		cmd := exec.Command(monitor, "validate", "--capacity=cpu=8,memory=32Gi", "-")
		cmd.Stdin = strings.NewReader(section)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), ": 0 errors, 0 warnings") {
			t.Errorf("%s: %v\n%s\n%s", name, err, section, out)
		}
	}
}

// built returns the path of a program of this tree.
func built(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", path, "./cmd/"+name)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestCommandLines: the installer of this tree takes the options of each file: what it refuses is
// the user, or the section that is not there.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	installer := built(t, "partition-installer")
	unit := *ignitionFile(t).Systemd.Units[0].Contents
	_, line, _ := strings.Cut(unit, "\nExecStart=/opt/node-partition/partition-installer ")
	line, _, _ = strings.Cut(line, "\n")
	plan := planFile(t).Spec.Upgrade
	for name, args := range map[string][]string{"Ignition": strings.Fields(line), "Plan": append(plan.Command[1:], plan.Args...)} {
		out, err := exec.Command(installer, args...).CombinedOutput()
		if exit := new(exec.ExitError); err == nil || !asExit(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), "--section: ") {
			t.Errorf("%s: %q: %v, %s", name, args, err, out)
		}
	}
}

func asExit(err error, exit **exec.ExitError) bool {
	e, is := err.(*exec.ExitError) //nolint:errorlint // of Command.Run itself
	*exit = e
	return is
}

// TestCloudInitSchema: cloud-init's own schema accepts the file.
func TestCloudInitSchema(t *testing.T) {
	t.Parallel()
	cloudInit := program(t, "cloud-init", "cloud-init")
	if out := run(t, cloudInit, "schema", "--config-file", "cloud-init/user-data.yaml"); !strings.Contains(out, "Valid") {
		t.Error(out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	text := strings.Replace(read(t, "cloud-init/user-data.yaml"), "permissions:", "permission:", 1)
	if err := os.WriteFile(wrong, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := output(t, cloudInit, "schema", "--config-file", wrong); err == nil {
		t.Errorf("cloud-init takes an unknown field: %s", out)
	}
}

// zeros is the sum in the examples, which a reader replaces.
var zeros = strings.Repeat("0", 64)

// TestCloudInitCommands: the shell of the example runs a program with the right sum, and none with
// another one. curl is a stub, which brings a program that notes its call.
func TestCloudInitCommands(t *testing.T) {
	t.Parallel()
	command := strict[userData](t, read(t, "cloud-init/user-data.yaml")).Runcmd[0]
	dir := t.TempDir()
	brought := "#!/bin/sh\necho \"$*\" >" + dir + "/called\n"
	curl := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\ncp " + dir + "/brought \"$2\"\n"
	for name, text := range map[string]string{"brought": brought, "curl": curl} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.ReplaceAll(command[2], "/etc/node-partition", dir)
	for sum, want := range map[string]string{
		zeros: "", fmt.Sprintf("%x", sha256.Sum256([]byte(brought))): "apply --section=" + dir + "/node-partition.yaml --trial=20m\n",
	} {
		cmd := exec.Command(command[0], command[1], strings.Replace(script, zeros, sum, 1))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		called, _ := os.ReadFile(filepath.Join(dir, "called"))
		if string(called) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %q; want %q\n%s", sum, err, called, want, out)
		}
	}
}

// TestIgnition: the first boot has the program with its sum, the section, and a unit that runs the
// one with the other.
func TestIgnition(t *testing.T) {
	t.Parallel()
	config := ignitionFile(t)
	unit := config.Systemd.Units[0]
	for _, f := range config.Storage.Files {
		if !strings.Contains(*unit.Contents, f.Path) {
			t.Errorf("the unit does not use %s", f.Path)
		}
	}
	if hash := config.Storage.Files[1].Contents.Verification.Hash; hash == nil || *hash != "sha256-"+zeros || unit.Enabled == nil || !*unit.Enabled {
		t.Errorf("%+v", config)
	}
}

// plan has the fields of the system-upgrade-controller that the example uses, by a copy of their
// names: its module cannot be had.
type plan struct {
	APIVersion string                           `json:"apiVersion"`
	Kind       string                           `json:"kind"`
	Metadata   struct{ Name, Namespace string } `json:"metadata"`
	Spec       struct {
		Concurrency           int64  `json:"concurrency"`
		JobActiveDeadlineSecs int64  `json:"jobActiveDeadlineSecs"`
		ServiceAccountName    string `json:"serviceAccountName"`
		Version               string `json:"version"`
		PostCompleteDelay     string `json:"postCompleteDelay"`
		NodeSelector          struct {
			MatchExpressions []struct{ Key, Operator string } `json:"matchExpressions"`
		} `json:"nodeSelector"`
		Secrets []struct{ Name, Path string } `json:"secrets"`
		Upgrade struct {
			Image   string   `json:"image"`
			Command []string `json:"command"`
			Args    []string `json:"args"`
		} `json:"upgrade"`
	} `json:"spec"`
}

func planFile(t *testing.T) plan {
	t.Helper()
	return strict[plan](t, read(t, "system-upgrade-controller/plan.yaml"))
}

// TestPlan: the Plan has the fields of the system-upgrade-controller, and its image is of its
// version.
func TestPlan(t *testing.T) {
	t.Parallel()
	p := planFile(t)
	if p.APIVersion != "upgrade.cattle.io/v1" || p.Kind != "Plan" || !strings.HasSuffix(p.Spec.Upgrade.Image, ":"+p.Spec.Version) {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(p.Spec.Upgrade.Args[1], p.Spec.Secrets[0].Path+"/node-partition.yaml") {
		t.Errorf("no section of the Secret: %q", p.Spec.Upgrade.Args)
	}
}
