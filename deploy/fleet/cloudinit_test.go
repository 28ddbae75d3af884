package fleet

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCloudInitSchema: cloud-init's own schema accepts each file, and the part for cloud-init in
// Karpenter's user data.
func TestCloudInitSchema(t *testing.T) {
	t.Parallel()
	cloudInit := program(t, "cloud-init", "cloud-init")
	part := filepath.Join(t.TempDir(), "karpenter.yaml")
	if err := os.WriteFile(part, []byte(partsOf(t, "text/cloud-config")[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cloud-init/user-data.yaml", "cloud-init/user-data-package.yaml", part} {
		if out := run(t, cloudInit, "schema", "--config-file", file); !strings.Contains(out, "Valid") {
			t.Errorf("%s: %s", file, out)
		}
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

// commands holds the shell of the examples that install a package, by the file.
func commands(t *testing.T) map[string]string {
	t.Helper()
	userData := strict[struct {
		writtenFiles `json:",inline"`
		Runcmd       [][]string `json:"runcmd"`
	}](t, read(t, "cloud-init/user-data-package.yaml"))
	command := userData.Runcmd[0]
	template := preKubeadm(t)[0]
	before := regexp.MustCompile(`(?s)sh -ec '\n(.*)'`).FindStringSubmatch(template)
	if len(command) != 3 || command[0] != "sh" || command[1] != "-ec" || before == nil {
		t.Fatalf("want sh -ec and a script: %q, %q", command, template)
	}
	return map[string]string{
		"cloud-init":  command[2],
		"Cluster API": before[1],
		"Karpenter":   partsOf(t, "text/x-shellscript")[0],
	}
}

// installs matches the installation of a package. apt-get waits for other users of dpkg, and rpm
// always does.
var installs = regexp.MustCompile(`(?m)^(apt-get .*-o DPkg::Lock::Timeout=600 .* install .*|rpm -i )/node-partition`)

// TestCommands: the shell of each example installs a package with the right sum, and none with
// another one. curl, apt-get and rpm are stubs.
func TestCommands(t *testing.T) {
	t.Parallel()
	for name, script := range commands(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newShellNode(t)
			script := strings.ReplaceAll(script, "/var/cache/", n.root+"/")
			out, err := n.sh(script)
			if calls := n.calls(); err == nil || installs.MatchString(calls) {
				t.Errorf("a package with another sum: %v, %s, %s", err, out, calls)
			}
			out, err = n.sh(strings.Replace(script, zeros, sumOf("a package\n"), 1))
			if calls := n.calls(); err != nil || !installs.MatchString(calls) {
				t.Errorf("%v, %s, %s", err, out, calls)
			}
		})
	}
}
