package generator

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

// disks holds a node's fstab(5) and crypttab(5).
type disks struct{ fstab, crypttab string }

// nodes lists nodes whose disks are mounted in different ways. None of the disks is there.
var nodes = map[string]disks{
	"noauto":    {fstab: "LABEL=k /var/lib/kubelet ext4 noauto 0 2\nLABEL=e /etc/kubernetes ext4 noauto 0 2\n"},
	"nofail":    {fstab: "LABEL=r /var/lib/rancher ext4 nofail 0 2\nLABEL=e /etc/kubernetes ext4 nofail 0 2\n"},
	"automount": {fstab: "LABEL=k /var/lib/kubelet ext4 noauto,x-systemd.automount 0 2\nLABEL=e /etc/kubernetes ext4 x-systemd.automount,nofail\n"},
	"nfs":       {fstab: "nfs:/k3s /var/lib/rancher nfs noauto,x-systemd.automount\nnfs:/k /var/lib/kubelet nfs noauto\nnfs:/e /etc/kubernetes nfs defaults\n"},
	"LUKS": {
		fstab:    "/dev/mapper/k /var/lib/kubelet ext4 noauto 0 2\n/dev/mapper/e /etc/kubernetes ext4 nofail 0 2\n",
		crypttab: "k /dev/vdk none noauto\ne /dev/vde none nofail\n",
	},
	"required": {fstab: "LABEL=v /var ext4 defaults 0 2\nLABEL=e /etc/kubernetes ext4 defaults 0 2\n"},
	"bind":     {fstab: "/srv/etc /etc/kubernetes none bind 0 0\n/srv/section.yaml /etc/kubernetes/node-partition.yaml none noauto,bind 0 0\n"},
}

// network holds a node's own units: the network as distributions start it, after basic.target, and
// a kubelet.
var network = map[string]string{
	"NetworkManager.service":               "[Unit]\nWants=network.target\nAfter=network-pre.target dbus.service\nBefore=network.target\n[Service]\nExecStart=/bin/true\n",
	"NetworkManager-wait-online.service":   "[Unit]\nRequires=NetworkManager.service\nAfter=NetworkManager.service\nBefore=network-online.target\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
	"kubelet.service":                      "[Unit]\nWants=network-online.target\nAfter=network-online.target\n[Service]\nExecStart=/bin/true\n",
	"multi-user.target.d/10-node.conf":     "[Unit]\nWants=NetworkManager.service kubelet.service\n",
	"network-online.target.d/10-node.conf": "[Unit]\nWants=NetworkManager-wait-online.service\n",
}

// TestBoot makes systemd compute a boot with the units of every case, on its own node, and with
// the units that wait for something on nodes with disks of every kind. No unit of the node is
// started, or waits for another, that is not or does not in the same boot without our units.
func TestBoot(t *testing.T) {
	kinds, loaded := map[string]bool{}, map[string]bool{}
	plain := sync.OnceValue(func() boot { return bootOf(t, disks{}, nil) })
	compare := func(name, shape string, node disks, without func() boot, units map[string]string) {
		if len(units) == 0 || loaded[node.fstab+shape] {
			return
		}
		loaded[node.fstab+shape] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareBoots(t, without(), bootOf(t, node, units))
		})
	}
	var representatives []golden.Case
	for _, c := range load(t) {
		own := disks{fstab: c.Files["etc/fstab"]}
		without := plain
		if own.fstab != "" {
			without = func() boot { return bootOf(t, own, nil) }
		}
		compare(c.Name, shapeOf(c.Want.Units), own, without, c.Want.Units)
		if kind := shapeOf(waiting(c.Want.Units)); own.fstab == "" && !kinds[kind] {
			kinds[kind] = true
			representatives = append(representatives, c)
		}
	}
	for name, node := range nodes {
		without := sync.OnceValue(func() boot { return bootOf(t, node, nil) })
		for _, c := range representatives {
			c.Files["etc/fstab"] = node.fstab
			units := golden.Run(t, c.NewRoot(t, "."), inProcess).Units
			compare(c.Name+"/"+name, shapeOf(waiting(units)), node, without, units)
		}
	}
}

// TestBootCycle: systemd's report of an ordering cycle is found.
func TestBootCycle(t *testing.T) {
	t.Parallel()
	found := bootOf(t, disks{}, map[string]string{
		"partition-cycle.service":           "[Unit]\nAfter=multi-user.target\nBefore=kubelet.service\n[Service]\nExecStart=/bin/true\n",
		"multi-user.target.d/50-cycle.conf": "[Unit]\nWants=partition-cycle.service\n",
	})
	if len(found.cycles) == 0 {
		t.Error("a service between the kubelet and the target that wants both is no cycle")
	}
}

// waiting returns those of units that wait for a file or a mount.
func waiting(units map[string]string) map[string]string {
	list := maps.Clone(units)
	maps.DeleteFunc(list, func(path, _ string) bool {
		return !strings.HasPrefix(path, "partition-generator-late") && !strings.HasPrefix(path, "partition-generator-await") &&
			!strings.Contains(path, ".mount.d/")
	})
	return list
}

// shapeOf returns what units have to do with a boot: their relations to other units and to paths.
func shapeOf(units map[string]string) string {
	var shape strings.Builder
	for _, name := range slices.Sorted(maps.Keys(units)) {
		shape.WriteString(name + "\n")
		section := ""
		for line := range strings.Lines(units[name]) {
			if strings.HasPrefix(line, "[") {
				section = line
			}
			key, _, _ := strings.Cut(line, "=")
			if section == "[Path]\n" || section == "[Unit]\n" && !slices.Contains([]string{"Description", "Documentation", "SourcePath"}, key) {
				shape.WriteString(line)
			}
		}
	}
	return shape.String()
}

// compareBoots compares a node's boot with our units to the boot without.
func compareBoots(t *testing.T, without, with boot) {
	t.Helper()
	if len(without.cycles) > 0 || !without.jobs["kubelet.service"] || !with.jobs["kubelet.service"] {
		t.Fatalf("that is no boot of a node: %q", without.cycles)
	}
	for _, line := range with.cycles {
		t.Errorf("%s", line)
	}
	for _, job := range slices.Sorted(maps.Keys(with.jobs)) {
		if !without.jobs[job] && !isOurs(job) {
			t.Errorf("the boot starts %s", job)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(without.jobs)) {
		if !with.jobs[job] {
			t.Errorf("the boot does not start %s", job)
			continue
		}
		before := without.waitsFor(job)
		if job == "paths.target" {
			// Any path unit with default dependencies is between sysinit.target and paths.target.
			// basic.target, the only unit that waits for paths.target, waits for both.
			before = without.waitsFor("basic.target")
		}
		for _, other := range slices.Sorted(maps.Keys(with.waitsFor(job))) {
			if !before[other] && !isOurs(other) {
				t.Errorf("%s waits for %s", job, other)
			}
		}
	}
}

// isOurs reports whether a unit is ours or a slice.
func isOurs(name string) bool {
	return strings.HasPrefix(name, "partition-") || strings.HasSuffix(name, ".slice")
}

// boot is the first transaction of a boot.
type boot struct {
	cycles []string
	jobs   map[string]bool
	after  map[string][]string
}

// waitsFor returns the jobs that end before that of name starts.
func (b boot) waitsFor(name string) map[string]bool {
	seen := map[string]bool{}
	for list := []string{name}; len(list) > 0; {
		next := list[0]
		list = list[1:]
		for _, other := range b.after[next] {
			if b.jobs[other] && !seen[other] {
				seen[other] = true
				list = append(list, other)
			}
		}
	}
	return seen
}

// bootOf returns the boot of a node with units.
func bootOf(t *testing.T, node disks, units map[string]string) boot {
	t.Helper()
	systemd := testkit.NeedProgram(t, "/usr/lib/systemd/systemd", "systemd")
	// systemd does not run in test mode as root, and another user cannot see t.TempDir().
	dir, err := os.MkdirTemp("", "boot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	testkit.WriteFiles(t, filepath.Join(dir, "ours"), units)
	testkit.WriteFiles(t, filepath.Join(dir, "node"), network)
	testkit.WriteFiles(t, dir, map[string]string{"fstab": node.fstab, "crypttab": node.crypttab, "generated/none": ""})
	for _, name := range []string{"systemd-fstab-generator", "systemd-cryptsetup-generator"} {
		out := filepath.Join(dir, "generated")
		generate := exec.Command(testkit.NeedProgram(t, "/usr/lib/systemd/system-generators/"+name, "systemd"), out, out, out)
		generate.Env = []string{"SYSTEMD_PROC_CMDLINE=", "SYSTEMD_FSTAB=" + filepath.Join(dir, "fstab"), "SYSTEMD_CRYPTTAB=" + filepath.Join(dir, "crypttab")}
		if message, err := generate.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, message)
		}
	}
	cmd := exec.Command(systemd, "--test", "--system", "--unit=multi-user.target")
	cmd.Env = []string{"SYSTEMD_UNIT_PATH=" + strings.Join([]string{
		filepath.Join(dir, "ours"), filepath.Join(dir, "node"), filepath.Join(dir, "generated"), "/usr/lib/systemd/system",
	}, ":"), "XDG_RUNTIME_DIR=/tmp", "HOME=/tmp"}
	if os.Geteuid() == 0 {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("systemd --test: %v\n%s", err, out)
	}
	return parseBoot(string(out))
}

func parseBoot(dump string) boot {
	b := boot{jobs: map[string]bool{}, after: map[string][]string{}}
	unit := ""
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "-> Unit "):
			unit = strings.TrimSuffix(strings.TrimPrefix(line, "-> Unit "), ":")
		case key == "After":
			other, _, _ := strings.Cut(value, " ")
			b.after[unit] = append(b.after[unit], other)
		case key == "Action" && strings.HasSuffix(value, " -> start"):
			b.jobs[strings.TrimSuffix(value, " -> start")] = true
		case strings.Contains(line, "ordering cycle"):
			b.cycles = append(b.cycles, line)
		}
	}
	return b
}
