//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

const (
	installerFolder = "/var/lib/node-partition/installer"
	// installerImage is the name of the image on a node, without its tag.
	installerImage = "lab.local/node-partition-installer"
	// sectionOfRoll holds the section. The chart puts it into a ConfigMap.
	sectionOfRoll = "/root/roll"
	// wayBackUnits lists the units by which a node goes back.
	wayBackUnits = `ls /etc/systemd/system | grep partition-install || true`
	// written lists the files of the project with their inodes and times, except what the monitor
	// writes while it runs.
	written = `find /usr/bin/partition-monitor /usr/lib/systemd /etc/systemd/system /etc/default /etc/kubernetes/node-partition.yaml ` +
		installerFolder + ` -newermt 2026-01-01 ! -type d ! -name 'request-*' ! -name 'result-*' ! -name lock ` +
		`-printf '%p %i %T@\n' | grep -e partition | sort`
	// reloads counts the reloads of systemd.
	reloads = `journalctl -b _PID=1 -o cat --no-pager | grep -c '^Reloading finished' || true`
)

// fleetNode is a node that pods of the installer change.
type fleetNode struct {
	*lab.Node
	image  string
	before bare
	// others prints the processes of pods outside of partitions, and untouched is its output before.
	others, untouched string
	rolls             int
}

// fleetNodeOf returns a node to which no roll has come.
func fleetNodeOf(t *testing.T, n *lab.Node) *fleetNode {
	t.Helper()
	f := &fleetNode{Node: n, before: bareNode(t, n), others: bystanders(t, n)}
	f.untouched = run(t, n, f.others)
	return f
}

// newFleetNode starts a node without anything of the project but the image.
func newFleetNode(t *testing.T, flavour string) *fleetNode {
	t.Helper()
	// Built before the node takes its place on the host.
	_, archive := built(t, "image", "image.tar", "1", "1", "IMAGE_ARCHIVE=$(BIN)/image.tar")
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
	if err := n.CopyTo(t.Context(), protectingNoPod(flavour)...); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload")
	imported(t, n, archive)
	f := fleetNodeOf(t, n)
	f.image = installerImage + ":v1"
	return f
}

// imported gives a node an image, by its tag and by its digest.
func imported(t *testing.T, n *lab.Node, archive []byte) {
	t.Helper()
	const path = "/root/image.tar"
	if err := n.CopyTo(t.Context(), lab.File{Path: path, Data: archive, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	run(t, n, "ctr -n k8s.io images import --base-name "+installerImage+" "+path+" && rm "+path)
	// import --digests names the image by the digest of its archive's index.
	run(t, n, "ctr -n k8s.io images ls | awk -v name="+installerImage+
		` 'index($1, name ":") == 1 {print $1, name "@" $3}' | xargs -n 2 ctr -n k8s.io images tag --force`)
}

// wish holds the options of a roll.
type wish struct {
	section string
	trial   time.Duration
	more    []string // options
	stages  []string // all, if empty
}

// stagesOfRoll are the containers of a roll, in their order.
func stagesOfRoll() []string { return []string{"preflight", "install", "apply", "verify", "keep"} }

// roll runs the stages in a pod, as the chart does, and returns the termination message of the last
// container that has ended, and its exit status.
func (f *fleetNode) roll(t *testing.T, w wish) (message string, status int32) {
	t.Helper()
	f.rolls++
	if w.section != "" {
		document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + w.section
		if err := f.WriteFile(t.Context(), sectionOfRoll+"/section.yaml", []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f.ended(t, f.pod(fmt.Sprintf("roll-%d", f.rolls), w))
}

// ended runs a pod, and returns the termination message of the last container that has ended, and
// its exit status.
func (f *fleetNode) ended(t *testing.T, pod *v1.Pod) (message string, status int32) {
	t.Helper()
	manifest, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ApplyPod(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
	var live *v1.Pod
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	err = f.Eventually(ctx, "the stages of "+pod.Name+" have ended", func(ctx context.Context) (bool, string, error) {
		if live, err = f.Pod(ctx, pod.Namespace, pod.Name); err != nil {
			return false, err.Error(), nil //nolint:nilerr // the next try may succeed
		}
		return live.Status.Phase == v1.PodSucceeded || live.Status.Phase == v1.PodFailed, string(live.Status.Phase), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(live.Status.InitContainerStatuses, live.Status.ContainerStatuses) {
		if c.State.Terminated == nil {
			break
		}
		message, status = c.State.Terminated.Message, c.State.Terminated.ExitCode
		t.Logf("%s: %d, %s", c.Name, status, message)
		if status != 0 {
			break
		}
	}
	if err := f.DeletePod(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitNoPod(t.Context(), pod.Namespace, pod.Name); err != nil {
		t.Fatal(err)
	}
	// The kubelet removes the pod's slice later.
	becomes(t, f.Node, "find "+cgroupRoot+" -name '"+unitname.PodSlice(unitname.Default, v1.PodQOSBestEffort, string(live.UID))+"'", "")
	return message, status
}

// pod returns the pod of a roll. A static pod needs no API server.
func (f *fleetNode) pod(name string, w wish) *v1.Pod {
	stages := w.stages
	if len(stages) == 0 {
		stages = stagesOfRoll()
	}
	never, folder := false, v1.HostPathDirectoryOrCreate
	root := int64(0) // systemd obeys no other
	containers := make([]v1.Container, 0, len(stages))
	for _, stage := range stages {
		args := append([]string{stage, "--node=" + f.Name, "--roll=" + name, "--version=v1", "--state=/host/state"}, w.more...)
		if stage != "uninstall" { // as in the chart
			args = append(args, "--section=/section/section.yaml", "--trial="+w.trial.String())
		}
		containers = append(containers, v1.Container{
			Name: stage, Image: f.image, ImagePullPolicy: v1.PullNever,
			Command: []string{"/partition-installer"}, Args: args,
			SecurityContext: &v1.SecurityContext{
				RunAsUser: &root, RunAsGroup: &root,
				Privileged: &never, AllowPrivilegeEscalation: &never, ReadOnlyRootFilesystem: &[]bool{true}[0],
				Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
			},
			VolumeMounts: []v1.VolumeMount{
				{Name: "bus", MountPath: "/run/dbus", ReadOnly: true},
				{Name: "state", MountPath: "/host/state"},
				{Name: "section", MountPath: "/section", ReadOnly: true},
			},
		})
	}
	host := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &folder}}}
	}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "node-partition", Name: name},
		Spec: v1.PodSpec{
			RestartPolicy:  v1.RestartPolicyNever,
			InitContainers: containers[:len(containers)-1], Containers: containers[len(containers)-1:],
			Volumes: []v1.Volume{host("bus", "/run/dbus"), host("state", installerFolder), host("section", sectionOfRoll)},
		},
	}
}

// asBefore: the node is as it was before the first roll. Only the installer's folder remains, with
// what says how the last roll ended.
func (f *fleetNode) asBefore(t *testing.T) {
	t.Helper()
	// A folder that is empty stays until the next boot.
	run(t, f.Node, "rmdir /run/node-partition 2>/dev/null || true")
	// The kubelet writes the weights of the classes every minute, and the pods of a roll count.
	becomes(t, f.Node, values(ofSlices), f.before.cgroups)
	f.before.removed(t, f.Node)
	f.forgotten(t)
	wantLines(t, "files", run(t, f.Node, installedFiles+" | grep -v ^"+filepath.Dir(installerFolder)), f.before.files)
	want(t, f.Node, f.others, f.untouched)
}

// forgotten: the units of the way back are gone, and systemd has been reloaded since.
func (f *fleetNode) forgotten(t *testing.T) {
	t.Helper()
	want(t, f.Node, wayBackUnits, "")
	becomes(t, f.Node, "systemctl show -P LoadState partition-install-back.timer", "not-found")
}

// wentBack waits until the way back has ended, and its units are gone.
func (f *fleetNode) wentBack(t *testing.T) {
	t.Helper()
	becomes(t, f.Node, wayBackUnits, "")
	becomes(t, f.Node, "systemctl is-active partition-install-back.service || true", "inactive")
}

// unfit is a node that preflight refuses.
type unfit struct {
	reason, says string
	// spoil and mend are shell commands.
	spoil, mend string
}

func unfitNodes() []unfit {
	// The kubelet is not restarted: preflight reads its file.
	const (
		file   = "/var/lib/kubelet/config.yaml"
		keep   = "cp -p " + file + " /root/kubelet.yaml && "
		mended = "cp -p /root/kubelet.yaml " + file + " && rm /root/kubelet.yaml"
	)
	return []unfit{
		{
			reason: "read-only-usr", says: "/usr",
			spoil: "mount --bind /usr /usr && mount -o remount,bind,ro /usr", mend: "umount --lazy /usr",
		},
		{reason: "cgroupfs", says: "cgroupDriver", spoil: keep + "sed -i 's/^cgroupDriver:.*/cgroupDriver: cgroupfs/' " + file, mend: mended},
		{reason: "kubelet-gate", says: "NodeSystemPartition", spoil: keep + "printf 'featureGates:\n  NodeSystemPartition: true\n' >>" + file, mend: mended},
		{
			reason: "no-bus", says: "system bus",
			spoil: "systemctl stop dbus.socket dbus.service", mend: "systemctl start dbus.socket dbus.service",
		},
	}
}

// TestFleetNode: the pods of a roll give a stock node its partition as a trial, and keep it. A roll
// that fails, dies or meets a reboot leaves the node as it was.
func TestFleetNode(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		f := newFleetNode(t, flavour)
		half := wish{section: partition("512Mi", "0-1"), trial: 20 * time.Minute}

		t.Run("writes only what is listed", func(t *testing.T) {
			stagesWriteOnly(t, f.Node)
			f.podWritesOnly(t)
			f.asBefore(t)
		})
		t.Run("refused", func(t *testing.T) {
			run(t, f.Node, "mkdir -p /usr/local/bin && printf x >/usr/bin/partition-monitor")
			message, status := f.roll(t, half)
			if status != 3 || !strings.HasPrefix(message, "foreign-file: ") || !strings.Contains(message, "/usr/bin/partition-monitor") {
				t.Errorf("status %d, %s", status, message)
			}
			run(t, f.Node, "rm /usr/bin/partition-monitor")
			message, status = f.roll(t, wish{section: "systemPartition:\n  memoryLimit: 512\n", trial: time.Minute})
			if status != 3 || !strings.HasPrefix(message, "section: ") {
				t.Errorf("status %d, %s", status, message)
			}
			f.asBefore(t)
		})
		for _, u := range unfitNodes() {
			t.Run("refused: "+u.reason, func(t *testing.T) {
				run(t, f.Node, u.spoil)
				message, status := f.roll(t, wish{section: half.section, trial: time.Minute, stages: []string{"preflight", "install"}})
				run(t, f.Node, u.mend)
				if status != 3 || !strings.HasPrefix(message, u.reason+": ") || !strings.Contains(message, u.says) {
					t.Errorf("status %d, %s; want %s, %q", status, message, u.reason, u.says)
				}
				f.asBefore(t)
			})
		}
		t.Run("monitor cannot start", func(t *testing.T) {
			message, status := f.roll(t, wish{section: half.section, trial: 2 * time.Minute, more: []string{"--monitor-args=--no-such-option"}})
			if status != 1 {
				t.Errorf("status %d, %s", status, message)
			}
			f.asBefore(t)
		})
		t.Run("dies after apply", func(t *testing.T) {
			message, status := f.roll(t, wish{section: half.section, trial: time.Minute, stages: []string{"preflight", "install", "apply"}})
			if status != 0 {
				t.Fatalf("status %d, %s", status, message)
			}
			f.wentBack(t)
			f.asBefore(t)
		})
		t.Run("kept", func(t *testing.T) {
			message, status := f.roll(t, half)
			if status != 0 || !strings.HasPrefix(message, "done: ") {
				t.Fatalf("status %d, %s", status, message)
			}
			wantLimits(t, f.Node, "536870912", "0-1")
			inSlice(t, f.Node, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
			want(t, f.Node, wayBackUnits, "")
			want(t, f.Node, "systemctl is-active "+monitorUnit+" node-partition-trial.timer || true", "active\ninactive")
			want(t, f.Node, servicePIDs, f.before.services)
			want(t, f.Node, f.others, f.untouched)
		})
		t.Run("again", func(t *testing.T) {
			before := f.still(t)
			message, status := f.roll(t, half)
			if status != 0 || !strings.Contains(message, "nothing to do") {
				t.Errorf("status %d, %s", status, message)
			}
			if after := f.still(t); after != before {
				t.Errorf("%+v\nwas %+v", after, before)
			}
		})
		t.Run("another section dies and the node boots", func(t *testing.T) {
			message, status := f.roll(t, wish{section: partition("520Mi", "0-1"), trial: 20 * time.Minute, stages: []string{"preflight", "install", "apply"}})
			if status != 0 {
				t.Fatalf("status %d, %s", status, message)
			}
			wantLimits(t, f.Node, "545259520", "0-1")
			// The memory that a kernel leaves differs from boot to boot by some pages.
			const ofNode = "echo kubepods.slice/memory.max $(cat " + cgroupRoot + "kubepods.slice/memory.max)"
			before := run(t, f.Node, ofNode)
			if err := f.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			ready(t, f.Node)
			f.before.cgroups = strings.Replace(f.before.cgroups, before, run(t, f.Node, ofNode), 1)
			wantLimits(t, f.Node, "536870912", "0-1")
			becomes(t, f.Node, wayBackUnits, "")
			// The boot has started them again.
			f.before.services, f.untouched = run(t, f.Node, servicePIDs), run(t, f.Node, f.others)
		})
		t.Run("uninstalled", func(t *testing.T) {
			message, status := f.roll(t, wish{trial: time.Minute, stages: []string{"uninstall"}})
			if status != 0 {
				t.Fatalf("status %d, %s", status, message)
			}
			f.asBefore(t)
		})
		if t.Failed() {
			t.Log(run(t, f.Node, "journalctl --no-pager -o short-monotonic -u 'partition-install*' -u node-partition-trial.service | tail -200"))
		}
	})
}
