//go:build node

package e2e

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// arrivingDocument is the recommended file, with a section.
var arrivingDocument = "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + partitionOf("512Mi", "0-1")

// TestArrival: the recommended file is there before the boot, or comes after the first run of the
// generators, and the node gets its partition without a reload by hand. TestLateVar shows the same
// for the file of the kubelet.
func TestArrival(t *testing.T) {
	for _, test := range []struct {
		name     string
		flavours []string
		arrival  func(*testing.T, string)
		without  string // the flavour whose systemd has no such way: 252 has no systemd-confext
	}{
		{"before the boot", []string{"trixie"}, arrivesBefore, ""},
		{"by a unit of the boot", []string{"trixie", "bookworm"}, arrivesByUnit, ""},
		{"on a file system of its own", []string{"trixie"}, arrivesByMount, ""},
		{"in a confext", []string{"forky"}, arrivesByConfext, "bookworm"},
		{"by hand", []string{"trixie"}, arrivesByHand, ""},
	} {
		able := slices.DeleteFunc(debians(), func(flavour string) bool { return flavour == test.without })
		t.Run(test.name, func(t *testing.T) { onEach(t, kinds(able, test.flavours...), test.arrival) })
	}
}

// arrivesBefore: the image of the node has the file.
func arrivesBefore(t *testing.T, flavour string) {
	n := bootsWith(t, flavour, lab.File{Path: kubeletconfig.OverridePath, Data: []byte(arrivingDocument)})
	arrivedAtBoot(t, n, flavour, 0)
}

// absent are lines of /etc/fstab for file systems that the node does not mount by itself: on a disk
// that is not there, and on a server that does not answer.
const absent = `LABEL=absent /var/lib/rancher ext4 noauto 0 0
10.0.2.2:/absent /etc/openshift nfs noauto,x-systemd.automount 0 0
`

// arrivesByUnit: a service of the boot writes the file before the kubelet starts, as cloud-init
// does. The node has places for other configurations that are never mounted.
func arrivesByUnit(t *testing.T, flavour string) {
	const written = "/root/node-partition.yaml"
	service := "[Unit]\nAfter=basic.target\nBefore=kubelet.service containerd.service\n\n" +
		"[Service]\nType=oneshot\nExecStart=cp " + written + " " + kubeletconfig.OverridePath + "\n"
	n := bootsWith(t, flavour,
		lab.File{Path: written, Data: []byte(arrivingDocument)},
		lab.File{Path: "/etc/systemd/system/arrives.service", Data: []byte(service)},
		lab.File{Path: "/etc/systemd/system/multi-user.target.wants/arrives.service", Link: "/etc/systemd/system/arrives.service"},
		lab.File{Path: "/etc/fstab", Data: []byte(absent)},
	)
	arrivedAtBoot(t, n, flavour, 0)
	want(t, n, "systemctl is-active var-lib-rancher.mount etc-openshift.mount || true", "inactive\ninactive")
}

// arrivesByMount: all of /etc/kubernetes is on another file system, which systemd mounts after the
// generators have run.
func arrivesByMount(t *testing.T, flavour string) {
	const other = "/srv/kubernetes"
	files := make([]lab.File, 0, 4)
	files = append(files,
		lab.File{Path: "/etc/fstab", Data: []byte(other + " /etc/kubernetes none bind 0 0\n")},
		lab.File{Path: other + "/node-partition.yaml", Data: []byte(arrivingDocument)},
	)
	for _, s := range []spec{
		{namespace: "kube-system", name: "system-agent", requests: resources("100m", "32Mi")},
		{namespace: "default", name: "user-app", requests: resources("100m", "32Mi")},
	} {
		files = append(files, lab.File{Path: other + "/manifests/" + s.name + ".yaml", Data: s.manifest(t)})
	}
	n := bootsWith(t, flavour, files...)
	want(t, n, "findmnt -n -o TARGET /etc/kubernetes", "/etc/kubernetes")
	arrivedAtBoot(t, n, flavour, 0)
}

// arrivesByConfext: systemd-confext.service merges the file into /etc.
func arrivesByConfext(t *testing.T, flavour string) {
	const extension = "/var/lib/confexts/partition/etc"
	n := bootsWith(t, flavour,
		lab.File{Path: extension + "/kubernetes/node-partition.yaml", Data: []byte(arrivingDocument)},
		lab.File{Path: extension + "/extension-release.d/extension-release.partition", Data: []byte("ID=_any\n")},
		lab.File{
			Path: "/etc/systemd/system/sysinit.target.wants/systemd-confext.service",
			Link: "/usr/lib/systemd/system/systemd-confext.service",
		},
	)
	want(t, n, "systemctl is-active systemd-confext.service", "active")
	arrivedAtBoot(t, n, flavour, 0)
}

// arrivesByHand: an operator writes the file on a node that runs. The members that run are moved
// into the partition.
func arrivesByHand(t *testing.T, flavour string) {
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
	if err := n.CopyTo(t.Context(), slices.Concat(programs(), protectingNoPod(flavour))...); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload && systemctl start slices.target") // in place of a boot
	want(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit+" || true", "inactive\ninactive")
	if err := n.WriteFile(t.Context(), kubeletconfig.OverridePath, []byte(arrivingDocument), 0o600); err != nil {
		t.Fatal(err)
	}
	becomes(t, n, "systemctl is-active "+systemSlice+" "+monitorUnit+" || true", "active\nactive")
	wantLimits(t, n, "536870912", "0-1")
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	inSlice(t, n, "default", "user-app", partition.Default, v1.PodQOSBurstable)
}

// bootsWith boots a node with the programs, a kubelet without a section, and more files.
func bootsWith(t *testing.T, flavour string, files ...lab.File) *lab.Node {
	t.Helper()
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Files: append(append(programs(), protectingNoPod(flavour)...), files...)})
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// arrivedAtBoot: the partition is there before the kubelet, and nothing has delayed the boot.
func arrivedAtBoot(t *testing.T, n *lab.Node, flavour string, restarts int32) {
	t.Helper()
	wantLimits(t, n, "536870912", "0-1")
	startedBeforeKubelet(t, n)
	placedAtBoot(t, n, flavour, restarts)
	want(t, n, "journalctl -b -o cat _PID=1 | grep -E 'ordering cycle|Timed out waiting|Dependency failed' || true", "")
	want(t, n, "systemctl --failed --plain --no-legend; systemctl list-jobs --plain --no-legend", "")
}
