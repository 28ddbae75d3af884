package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// installer takes the place of the installer. It notes its call in the node's folder, and in the
// file of all nodes. A file fail has it fail, and a second call of the same is unchanged.
const installer = `#!/bin/sh
root=${0%%%%/var/cache/*}
echo "$*" >>$root/calls
echo "${root##*/}" >>%s
if [ -e $root/fail ]; then echo "verify: the node was not well; the node went back" >&2; exit 1; fi
word=done
[ "$(cat $root/has 2>/dev/null)" != "$*" ] || word=unchanged
echo "$*" >$root/has
echo "$word: kept" >&2
`

// fleetOfFolders is an inventory whose nodes are folders.
type fleetOfFolders struct {
	*testing.T
	dir string
}

// newFleet returns an inventory with workers and a control plane. lost is a node of it that does
// not answer; empty for none.
func newFleet(t *testing.T, workers, control []string, lost string) fleetOfFolders {
	t.Helper()
	f := fleetOfFolders{t, t.TempDir()}
	f.write("installer", fmt.Sprintf(installer, filepath.Join(f.dir, "order")))
	var lines []string
	for group, nodes := range map[string][]string{"kube_node": workers, "kube_control_plane": control} {
		lines = append(lines, "["+group+"]")
		for _, node := range nodes {
			line := node + " ansible_connection=local ansible_become=false node_partition_root=" + filepath.Join(f.dir, node)
			if node == lost {
				line = node + " ansible_host=127.0.0.1 ansible_port=1"
			}
			lines = append(lines, line)
		}
	}
	f.write("inventory", strings.Join(lines, "\n")+"\n")
	return f
}

func (f fleetOfFolders) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		f.Fatal(err)
	}
}

// calls returns the calls of the installer on a node since the last time.
func (f fleetOfFolders) calls(node string) []string {
	f.Helper()
	path := filepath.Join(f.dir, node, "calls")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	if err := os.Remove(path); err != nil {
		f.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(data), f.dir, ""), "\n"), "\n")
}

// play runs the playbook, and returns what it prints. It has to end well or not.
func (f fleetOfFolders) play(well bool, args ...string) string {
	f.Helper()
	cmd := exec.Command(program(f.T, "ansible-playbook", "ansible-core"), append([]string{
		"-i", filepath.Join(f.dir, "inventory"), "ansible/node-partition.yaml",
		"-e", "node_partition_installer=" + filepath.Join(f.dir, "installer"), "-e", "{node_partition_section: \"systemPartition: {}\\n\"}",
	}, args...)...)
	cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "ANSIBLE_FORKS=10", "ANSIBLE_LOCALHOST_WARNING=false",
		"ANSIBLE_HOME="+filepath.Join(f.dir, "ansible"), "ANSIBLE_LOCAL_TEMP="+filepath.Join(f.dir, "tmp"),
		"ANSIBLE_REMOTE_TEMP="+filepath.Join(f.dir, "tmp"), "ANSIBLE_HOST_KEY_CHECKING=false", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if (err == nil) != well {
		f.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// applied is the call of the installer on a node.
func applied(node string) []string {
	return []string{fmt.Sprintf("apply --node=%s --section=/%[1]s/var/cache/node-partition/node-partition.yaml --trial=10m --monitor-args= --survey=false", node)}
}

// TestAnsibleRollout: the workers are changed, and the control plane only if it is asked for, after
// them and one by one. A second run changes nothing. A removal leaves nothing of Ansible's.
func TestAnsibleRollout(t *testing.T) {
	t.Parallel()
	workers, control := []string{"w1", "w2", "w3"}, []string{"c1", "c2"}
	f := newFleet(t, workers, control, "")
	f.play(true)
	for _, node := range workers {
		if got := f.calls(node); !slices.Equal(got, applied(node)) {
			t.Errorf("%s: %q", node, got)
		}
	}
	for _, node := range control {
		if got := f.calls(node); got != nil {
			t.Errorf("%s, of the control plane, was called: %q", node, got)
		}
	}
	out := f.play(true, "-e", "node_partition_control_plane=true")
	for _, node := range workers {
		if !regexp.MustCompile(node + ` .*changed=0 `).MatchString(out) {
			t.Errorf("a second run on %s reports changes:\n%s", node, out)
		}
	}
	order := strings.Fields(read(t, filepath.Join(f.dir, "order")))
	if !slices.Equal(order[len(order)-2:], control) || !slices.Equal(f.calls("c1"), applied("c1")) {
		t.Errorf("the turns are %q", order)
	}
	f.calls("w1")
	f.play(true, "-e", "node_partition_monitor_args='--a --b'", "-e", "node_partition_survey=true")
	if got := f.calls("w1"); len(got) != 1 || !strings.HasSuffix(got[0], " --monitor-args=--a --b --survey=true") {
		t.Errorf("%q", got)
	}
	f.play(true, "-e", "node_partition_remove=true")
	if got := f.calls("w1"); !slices.Equal(got, []string{"remove --node=w1"}) {
		t.Errorf("%q", got)
	}
	if left, err := os.ReadDir(filepath.Join(f.dir, "w1/var/cache")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestAnsibleStops: the rollout ends with the batch of the first node that fails or does not
// answer. The others of the batch are ready and stay so.
func TestAnsibleStops(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails, lost      string
		ready, untouched []string
		says             string
	}{
		"a node fails":           {"w2", "", []string{"w1", "w3"}, []string{"w4", "c1"}, "the node was not well"},
		"a node does not answer": {"", "w2", []string{"w1", "w3"}, []string{"w4", "c1"}, "The rollout ends here: w2 does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, []string{"w1", "w2", "w3", "w4"}, []string{"c1"}, test.lost)
			if test.fails != "" {
				f.write(test.fails+"/fail", "")
			}
			out := f.play(false, "-e", "node_partition_serial=3", "-e", "node_partition_control_plane=true")
			for _, node := range test.ready {
				if got := f.calls(node); !slices.Equal(got, applied(node)) {
					t.Errorf("%s: %q\n%s", node, got, out)
				}
			}
			for _, node := range test.untouched {
				if got := f.calls(node); got != nil {
					t.Errorf("%s was called: %q\n%s", node, got, out)
				}
			}
			if !strings.Contains(out, test.says) {
				t.Error(out)
			}
		})
	}
}

// TestAnsibleSyntax: the playbook and the example of an inventory are read, and the rollout goes
// over workers alone.
func TestAnsibleSyntax(t *testing.T) {
	t.Parallel()
	ansible := program(t, "ansible-playbook", "ansible-core")
	out := run(t, ansible, "-i", "ansible/inventory.yaml", "--syntax-check", "ansible/node-partition.yaml")
	if strings.Contains(out, "WARNING") {
		t.Error(out)
	}
	out = run(t, ansible, "-i", "ansible/inventory.yaml", "--list-hosts", "ansible/node-partition.yaml")
	if !strings.Contains(out, "hosts (240)") || strings.Contains(out, "control-1") {
		t.Errorf("the rollout goes over other nodes than the workers:\n%s", out)
	}
}

// TestAnsibleLint: ansible-lint finds nothing.
func TestAnsibleLint(t *testing.T) {
	t.Parallel()
	run(t, program(t, "ansible-lint", "ansible-lint"), "--offline", "-q", "ansible/node-partition.yaml")
}
