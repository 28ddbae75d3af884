package fleet

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs takes the place of the programs of a node. Each notes its call in calls, and in the file
// that all nodes share. A file of the name of a step in fail has the step fail.
const programs = `#!/bin/sh
root=%[1]s
line="${0##*/} $*"
echo "$line" >>$root/calls
echo "%[2]s ${0##*/} $*" >>%[3]s
step() { [ ! -e $root/fail/$1 ] || { echo "no $1 today" >&2; exit 1; }; }
have() { mkdir -p $1/usr/bin && cp $root/bin/program $1/usr/bin/partition-monitor; }
run=$root/run/node-partition file=$root/etc/kubernetes/node-partition.yaml
case ${line%%%% /*} in
"apt-get "*" install "* | "rpm -U --oldpackage")
	step install; for package; do :; done; cp "$package" $root/version; have $root ;;
"apt-get "*" remove node-partition" | "apt-get "*" purge node-partition" | "rpm -e node-partition")
	rm -f $root/version $root/usr/bin/partition-monitor ;;
"dpkg-query "* | "rpm -q "*) [ -e $root/version ] || exit 1; echo "installed $(cat $root/version)" ;;
"dpkg-deb -f") cat "$2" ;;
"rpm -qp "*) for package; do :; done; cat "$package" ;;
"dpkg-deb -x") have "$3" ;;
rpm2cpio*) ;;
cpio*) have . ;;
"partition-monitor validate "*) cat >/dev/null; step validate ;;
"partition-monitor try --end") rm $run/trial.yaml ;;
"partition-monitor try - "*) step try; mkdir -p $run; cat >$run/trial.yaml ;;
"partition-monitor try") step try; mkdir -p $run; cp "$2" $run/trial.yaml ;;
"partition-monitor status "*) step status ;;
"partition-monitor check"*)
	if [ -e $root/fail/check ]; then echo '{"findings": [{"grade": "error", "found": "no check today"}]}'; exit 1; fi ;;
"partition-monitor keep")
	mkdir -p ${file%%/*}; cp $run/trial.yaml $file; step keep; rm $run/trial.yaml ;;
"kubectl wait "*) step kubectl ;;
"systemctl daemon-reload") [ ! -e $file ] || { echo "the section is there"; exit 1; } ;;
"dpkg --print-architecture") echo amd64 ;;
"curl -fsSL --retry 5 -o") cp $root/offered "$5" ;;
*) echo "what is $line?" >&2; exit 2 ;;
esac
`

// fleetOfFolders is an inventory whose nodes are folders.
type fleetOfFolders struct {
	*testing.T
	dir string
	// nodes lists what is in the inventory, with its variables.
	nodes map[string][]string
}

// newFleet returns an inventory with workers and a control plane.
func newFleet(t *testing.T, workers, control []string) fleetOfFolders {
	t.Helper()
	f := fleetOfFolders{T: t, dir: t.TempDir(), nodes: map[string][]string{}}
	for _, name := range slices.Concat(workers, control) {
		root := f.root(name)
		for _, program := range []string{"program", "apt-get", "dpkg", "dpkg-deb", "dpkg-query", "rpm", "rpm2cpio", "cpio", "kubectl", "curl", "systemctl"} {
			f.write(name, "bin/"+program, fmt.Sprintf(programs, root, name, filepath.Join(f.dir, "order")))
			if err := os.Chmod(filepath.Join(root, "bin", program), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		f.nodes[name] = []string{
			"ansible_connection=local", "ansible_become=false", "node_partition_root=" + root,
			`node_partition_kubectl='["` + root + `/bin/kubectl"]'`,
			`node_partition_environment='{"PATH": "` + root + "/bin:" + os.Getenv("PATH") + `"}'`,
		}
	}
	f.group("kube_node", workers)
	f.group("kube_control_plane", control)
	f.newPackage("1.0-1")
	return f
}

// group writes a group of the inventory.
func (f fleetOfFolders) group(name string, nodes []string) {
	f.Helper()
	lines := "[" + name + "]\n"
	for _, node := range nodes {
		lines += node + " " + strings.Join(f.nodes[node], " ") + "\n"
	}
	if err := os.MkdirAll(filepath.Join(f.dir, "inventory"), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "inventory", name), []byte(lines), 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f fleetOfFolders) root(node string) string { return filepath.Join(f.dir, node) }

// write writes a file of a node.
func (f fleetOfFolders) write(node, path, text string) {
	f.Helper()
	path = filepath.Join(f.root(node), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
}

// newPackage makes a package of a version, and returns its path.
func (f fleetOfFolders) newPackage(version string) string {
	f.Helper()
	path := filepath.Join(f.dir, "node-partition_"+version+".deb")
	if err := os.WriteFile(path, []byte(version), 0o644); err != nil {
		f.Fatal(err)
	}
	return path
}

// has reports the content of a file of a node, "" without one.
func (f fleetOfFolders) has(node, path string) string {
	f.Helper()
	data, err := os.ReadFile(filepath.Join(f.root(node), path))
	if err != nil && !os.IsNotExist(err) {
		f.Fatal(err)
	}
	return string(data)
}

// changes lists the calls on a node since the last call of forget that change it.
func (f fleetOfFolders) changes(node string) []string {
	f.Helper()
	var changes []string
	for line := range strings.Lines(f.has(node, "calls")) {
		words := strings.Fields(strings.ReplaceAll(line, f.root(node), ""))
		line = strings.Join(words, " ")
		if changing.MatchString(line) {
			changes = append(changes, line)
		}
	}
	return changes
}

// changing matches calls that change a node.
var changing = regexp.MustCompile(`^apt-get |^rpm -[Ue]|^partition-monitor (try|keep)|^systemctl daemon-reload`)

// forget removes the list of calls.
func (f fleetOfFolders) forget() {
	f.Helper()
	for node := range f.nodes {
		if err := os.RemoveAll(filepath.Join(f.root(node), "calls")); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "order")); err != nil {
		f.Fatal(err)
	}
}

// play runs a playbook, and returns what it prints.
func (f fleetOfFolders) play(playbook, version, section string, args ...string) (string, error) {
	f.Helper()
	cmd := exec.Command(program(f.T, "ansible-playbook", "ansible-core"), append([]string{
		"-i", filepath.Join(f.dir, "inventory"), "ansible/" + playbook,
		"-e", "node_partition_package=" + f.newPackage(version), "-e", "{node_partition_section: \"" + section + "\"}",
	}, args...)...)
	cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "ANSIBLE_FORKS=10", "ANSIBLE_LOCALHOST_WARNING=false",
		"ANSIBLE_HOME="+filepath.Join(f.dir, "ansible"), "ANSIBLE_LOCAL_TEMP="+filepath.Join(f.dir, "tmp"),
		"ANSIBLE_REMOTE_TEMP="+filepath.Join(f.dir, "tmp"), "ANSIBLE_HOST_KEY_CHECKING=false", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// want runs a playbook, which has to end well or not.
func (f fleetOfFolders) want(well bool, playbook, version, section string, args ...string) string {
	f.Helper()
	out, err := f.play(playbook, version, section, args...)
	if (err == nil) != well {
		f.Fatalf("%v\n%s", err, out)
	}
	return out
}

// The commands that change packages: they wait for other users of dpkg, and keep settings.
const (
	apt        = "apt-get -q -y -o DPkg::Lock::Timeout=600 "
	putPackage = apt + "-o Dir::Cache::Archives=/var/cache/node-partition/ -o DPkg::Options::=--force-confold install " +
		"--no-install-recommends --no-remove --allow-downgrades --reinstall "
)

// The changes of a first installation, and of its way back.
var (
	firstChanges = []string{
		putPackage + "/var/cache/node-partition/new.deb", "partition-monitor try - --for=15m", "partition-monitor keep",
	}
	upgradeChanges = firstChanges[:1]
)

const oneSection = `systemPartition: {namespaces: [kube-system]}\n`

// file is the path of the section on a node.
const file = "etc/kubernetes/node-partition.yaml"

// TestAnsibleRoll: the workers get package and section, and the control plane only if it is asked
// for, after them and one by one. A second run changes nothing.
func TestAnsibleRoll(t *testing.T) {
	t.Parallel()
	f := newFleet(t, []string{"w1", "w2", "w3"}, []string{"c1", "c2"})
	out := f.want(true, "roll.yaml", "1.0-1", oneSection)
	for _, node := range []string{"w1", "w2", "w3"} {
		if got := f.changes(node); !slices.Equal(got, firstChanges) {
			t.Errorf("%s: %q", node, got)
		}
		if got := f.has(node, file); got != strings.ReplaceAll(oneSection, `\n`, "\n") {
			t.Errorf("%s has the section %q", node, got)
		}
	}
	for _, node := range []string{"c1", "c2"} {
		if got := f.has(node, "calls"); got != "" {
			t.Errorf("%s, of the control plane, was called: %s\n%s", node, got, out)
		}
	}

	f.forget()
	out = f.want(true, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_control_plane=true")
	for _, node := range []string{"w1", "w2", "w3"} {
		if got := f.changes(node); got != nil {
			t.Errorf("a second run changes %s: %q", node, got)
		}
		if !regexp.MustCompile(node + ` .*changed=0 `).MatchString(out) {
			t.Errorf("a second run on %s reports changes:\n%s", node, out)
		}
	}
	order, err := os.ReadFile(filepath.Join(f.dir, "order"))
	if err != nil {
		t.Fatal(err)
	}
	var turns []string
	for line := range strings.Lines(string(order)) {
		node, _, _ := strings.Cut(line, " ")
		turns = append(turns, node)
	}
	if got := slices.Compact(turns); !slices.Equal(got[len(got)-2:], []string{"c1", "c2"}) {
		t.Errorf("the turns are %q", got)
	}
	for _, node := range []string{"c1", "c2"} {
		if got := f.changes(node); !slices.Equal(got, firstChanges) {
			t.Errorf("%s: %q", node, got)
		}
	}
}

// TestAnsibleGoesBack: whatever step fails, the node has what it had, and the message says why.
func TestAnsibleGoesBack(t *testing.T) {
	t.Parallel()
	steps := []string{"install", "try", "status", "check", "kubectl", "keep"}
	f := newFleet(t, steps, nil)
	for _, step := range steps {
		f.write(step, "fail/"+step, "")
	}
	out := f.want(false, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_serial=100%")
	for _, step := range steps {
		for _, path := range []string{"version", file, "run/node-partition/trial.yaml"} {
			if got := f.has(step, path); got != "" {
				t.Errorf("%s has %s: %q", step, path, got)
			}
		}
		message := regexp.MustCompile(`fatal: \[` + step + `\]: .*no ` + step + ` today\. Package and section are as before\.`)
		if !message.MatchString(out) {
			t.Errorf("%s: no message matches %s", step, message)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestAnsibleStops: the roll ends with the batch of the first node that fails or does not answer.
// The others of the batch are ready and stay so.
func TestAnsibleStops(t *testing.T) {
	t.Parallel()
	t.Run("a node fails", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, []string{"w1", "w2", "w3", "w4"}, []string{"c1"})
		f.write("w2", "fail/status", "")
		out := f.want(false, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_serial=3", "-e", "node_partition_control_plane=true")
		f.wantStopped(out, []string{"w1", "w3"}, []string{"w4", "c1"})
	})
	t.Run("a node does not answer", func(t *testing.T) {
		t.Parallel()
		program(t, "ssh", "openssh-client")
		f := newFleet(t, []string{"w1", "w2", "w3"}, []string{"c1"})
		f.nodes["w1"] = []string{"ansible_host=127.0.0.1", "ansible_port=1"}
		f.group("kube_node", []string{"w1", "w2", "w3"})
		out := f.want(false, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_serial=2", "-e", "node_partition_control_plane=true")
		f.wantStopped(out, []string{"w2"}, []string{"w3", "c1"})
		if !strings.Contains(out, "The roll ends here: w1 does not answer") {
			t.Error(out)
		}
	})
}

// wantStopped compares the nodes that are ready, and those whose turn has not come.
func (f fleetOfFolders) wantStopped(out string, ready, untouched []string) {
	f.Helper()
	for _, node := range ready {
		if got := f.changes(node); !slices.Equal(got, firstChanges) {
			f.Errorf("%s: %q\n%s", node, got, out)
		}
	}
	for _, node := range untouched {
		if got := f.has(node, "calls"); got != "" {
			f.Errorf("%s was called: %s\n%s", node, got, out)
		}
	}
}

// TestAnsibleUpgrade: an upgrade that fails puts back the package of before, which the role has
// kept. Then another section is tried alone.
func TestAnsibleUpgrade(t *testing.T) {
	t.Parallel()
	f := newFleet(t, []string{"w1"}, nil)
	f.want(true, "roll.yaml", "1.0-1", oneSection)

	f.forget()
	f.write("w1", "fail/status", "")
	out := f.want(false, "roll.yaml", "2.0-1", oneSection)
	want := append(slices.Clone(upgradeChanges), putPackage+"/var/cache/node-partition/kept.deb")
	if got := f.changes("w1"); !slices.Equal(got, want) || f.has("w1", "version") != "1.0-1" {
		t.Errorf("%q\n%s", got, out)
	}
	// The program fails with both versions here.
	if !strings.Contains(out, "no status today. The node is NOT as before: the partition of before is not active.") {
		t.Error(out)
	}

	f.forget()
	if err := os.Remove(filepath.Join(f.root("w1"), "fail/status")); err != nil {
		t.Fatal(err)
	}
	f.want(true, "roll.yaml", "2.0-1", oneSection)
	if got := f.changes("w1"); !slices.Equal(got, upgradeChanges) || f.has("w1", "version") != "2.0-1" {
		t.Errorf("%q", got)
	}

	f.forget()
	f.want(true, "roll.yaml", "2.0-1", "workloadPartitions: {}")
	if got := f.changes("w1"); !slices.Equal(got, firstChanges[1:]) || f.has("w1", file) != "workloadPartitions: {}" {
		t.Errorf("%q", got)
	}

	f.forget()
	f.want(true, "remove.yaml", "2.0-1", oneSection)
	if got := f.changes("w1"); !slices.Equal(got, []string{"systemctl daemon-reload", apt + "remove node-partition"}) || f.has("w1", file) != "" {
		t.Errorf("%q", got)
	}
}

// TestAnsibleRPM: the commands of the other format.
func TestAnsibleRPM(t *testing.T) {
	t.Parallel()
	f := newFleet(t, []string{"w1", "w2"}, nil)
	f.write("w2", "fail/try", "")
	out := f.want(false, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_format=rpm")
	want := []string{"rpm -U --oldpackage /var/cache/node-partition/new.rpm", "partition-monitor try - --for=15m", "partition-monitor keep"}
	if got := f.changes("w1"); !slices.Equal(got, want) {
		t.Errorf("%q\n%s", got, out)
	}
	if got := f.changes("w2"); !slices.Equal(got, append(want[:2:2], "rpm -e node-partition")) {
		t.Errorf("%q\n%s", got, out)
	}
}

// TestAnsibleRefuses: what could not go back is refused before anything is changed.
func TestAnsibleRefuses(t *testing.T) {
	t.Parallel()
	refusals := map[string]string{
		"trial":   "a trial runs",
		"both":    "the node has a version and a section, and both would change",
		"section": "its installation would apply the section at once",
		"package": "the node has version 0.9-1, and its package is needed for the way back",
		"invalid": "the section is not valid: no validate today",
	}
	f := newFleet(t, slices.Sorted(maps.Keys(refusals)), nil)
	f.write("trial", "run/node-partition/trial.yaml", oneSection)
	f.write("both", "version", "0.9-1")
	f.write("both", file, "another")
	f.write("section", file, "another")
	f.write("package", "version", "0.9-1")
	f.write("invalid", "fail/validate", "")
	out := f.want(false, "roll.yaml", "1.0-1", oneSection, "-e", "node_partition_serial=100%")
	for node, message := range refusals {
		if got := f.changes(node); got != nil {
			t.Errorf("%s was changed: %q", node, got)
		}
		if !regexp.MustCompile(`fatal: \[` + node + `\]: .*Refused, and nothing was changed: .*` + regexp.QuoteMeta(message)).MatchString(out) {
			t.Errorf("%s: no message has %q", node, message)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestAnsibleSyntax: the playbooks and the example of an inventory are read, and the roll goes over
// workers alone.
func TestAnsibleSyntax(t *testing.T) {
	t.Parallel()
	ansible := program(t, "ansible-playbook", "ansible-core")
	out := run(t, ansible, "-i", "ansible/inventory.yaml", "--syntax-check", "ansible/roll.yaml", "ansible/remove.yaml")
	if strings.Contains(out, "WARNING") {
		t.Error(out)
	}
	out = run(t, ansible, "-i", "ansible/inventory.yaml", "--list-hosts", "ansible/roll.yaml")
	if !strings.Contains(out, "hosts (240)") || strings.Contains(out, "control-1") {
		t.Errorf("the roll goes over other nodes than the workers:\n%s", out)
	}
}

// TestAnsibleLint: ansible-lint finds nothing.
func TestAnsibleLint(t *testing.T) {
	t.Parallel()
	run(t, program(t, "ansible-lint", "ansible-lint"), "--offline", "-q", "ansible/roll.yaml", "ansible/remove.yaml")
}
