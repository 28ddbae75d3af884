//go:build node

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const (
	installerFolder = "/var/lib/node-partition/installer"
	// installerImage is the name of the image on a node, without its tag.
	installerImage = "lab.local/node-partition-installer"
	// sectionFolder holds the section.
	sectionFolder = "/root/section"
	// operatorsProgram is the installer that an operator runs in a shell.
	operatorsProgram = "/root/partition-installer"
	// rollbackUnits lists the units by which a node goes back.
	rollbackUnits = `ls /etc/systemd/system | grep partition-install || true`
	// written lists the files of the project with their inodes and times, except what the monitor
	// writes while it runs.
	written = `find /usr/bin/partition-monitor /usr/libexec /usr/lib/systemd /etc/systemd/system /etc/default /etc/kubernetes/node-partition.yaml ` +
		installerFolder + ` -newermt 2026-01-01 ! -type d ! -name 'message-*' ` +
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

// newFleetNode starts a node without anything of the project but the image, and the installer of an
// operator.
func newFleetNode(t *testing.T, flavour string) *fleetNode {
	t.Helper()
	// Built before the node takes its place on the host.
	dir := t.TempDir()
	builtIn(t, dir, "image", "1", "1", "IMAGE_ARCHIVE=$(BIN)/image.tar")
	archive, err := os.ReadFile(filepath.Join(dir, "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(dir, "linux-*/partition-installer"))
	if err != nil || len(programs) != 1 {
		t.Fatalf("%q, %v", programs, err)
	}
	n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
	files := append(protectingNoPod(flavour), lab.File{Path: operatorsProgram, Source: programs[0], Mode: 0o755})
	if err := n.CopyTo(t.Context(), files...); err != nil {
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
	// Unpacking takes minutes where the node is emulated.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := n.Run(ctx, "ctr -n k8s.io images import --base-name "+installerImage+" "+path+" && rm "+path); err != nil {
		t.Fatal(out, err)
	}
	// import --digests names the image by the digest of its archive's index.
	run(t, n, "ctr -n k8s.io images ls | awk -v name="+installerImage+
		` 'index($1, name ":") == 1 {print $1, name "@" $3}' | xargs -n 2 ctr -n k8s.io images tag --force`)
}

// wish holds the options of an apply.
type wish struct {
	section string
	trial   string
	options string // of the monitor
	survey  bool
}

// write writes the section of a wish, and returns the arguments of the installer, as a pod of the
// rollout has them. The section is in a folder.
func (f *fleetNode) write(t *testing.T, w wish, folder string) []string {
	t.Helper()
	document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + w.section
	if err := f.WriteFile(t.Context(), sectionFolder+"/section.yaml", []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		"apply", "--node=" + f.Name, "--version=v1", "--section=" + folder + "/section.yaml", fmt.Sprintf("--section-sha256=%x", sha256.Sum256([]byte(document))),
		"--trial=" + w.trial, "--monitor-args=" + w.options, fmt.Sprintf("--survey=%t", w.survey),
	}
}

// termination is the termination message of the installer.
type termination struct{ Reason, Message string }

// apply runs the installer in a pod, as the rollout does.
func (f *fleetNode) apply(t *testing.T, w wish) (said termination, status int32) {
	t.Helper()
	return f.inPod(t, f.write(t, w, "/section"))
}

func (f *fleetNode) inPod(t *testing.T, args []string) (said termination, status int32) {
	t.Helper()
	f.rolls++
	message, status := f.ended(t, f.pod(fmt.Sprintf("pod-%d", f.rolls), args))
	if err := json.Unmarshal([]byte(message), &said); err != nil {
		t.Errorf("%s: %v", message, err)
	}
	return said, status
}

// byOperator starts an apply in a shell of the node, as a service, and waits until its section is
// on trial.
func (f *fleetNode) byOperator(t *testing.T, w wish) {
	t.Helper()
	args := strings.Join(f.write(t, w, sectionFolder), "' '")
	run(t, f.Node, "systemd-run --quiet --collect --unit=operator "+operatorsProgram+" '"+args+"'")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := f.Run(ctx, "until [ -e "+kubeletconfig.TrialPath+" ]; do sleep 0.1; done"); err != nil {
		t.Fatal(err)
	}
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
	err = f.Eventually(ctx, pod.Name+" has ended", func(ctx context.Context) (bool, string, error) {
		if live, err = f.Pod(ctx, pod.Namespace, pod.Name); err != nil {
			return false, err.Error(), nil //nolint:nilerr // the next try may succeed
		}
		return live.Status.Phase == v1.PodSucceeded || live.Status.Phase == v1.PodFailed, string(live.Status.Phase), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	end := live.Status.ContainerStatuses[0].State.Terminated
	if end == nil {
		t.Fatalf("%s: %+v", pod.Name, live.Status)
	}
	message, status = end.Message, end.ExitCode
	t.Logf("%s: %d, %s", pod.Name, status, message)
	if err := f.DeletePod(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitNoPod(t.Context(), pod.Namespace, pod.Name); err != nil {
		t.Fatal(err)
	}
	// The kubelet removes the pod's slice later.
	becomes(t, f.Node, "find "+cgroupRoot+" -name '"+partition.PodSlice(partition.Default, v1.PodQOSBestEffort, string(live.UID))+"'", "")
	return message, status
}

// pod returns a pod of the installer. A static pod needs no API server.
func (f *fleetNode) pod(name string, args []string) *v1.Pod {
	never, folder := false, v1.HostPathDirectoryOrCreate
	root := int64(0) // systemd obeys no other
	container := v1.Container{
		Name: "node", Image: f.image, ImagePullPolicy: v1.PullNever,
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
	}
	host := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &folder}}}
	}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "node-partition", Name: name},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{container},
			Volumes: []v1.Volume{host("bus", "/run/dbus"), host("state", installerFolder), host("section", sectionFolder)},
		},
	}
}

// asBefore: the node is as it was before the first change. Only the installer's folder remains, and
// it is empty.
func (f *fleetNode) asBefore(t *testing.T) {
	t.Helper()
	// A folder that is empty stays until the next boot.
	run(t, f.Node, "rmdir /run/node-partition 2>/dev/null || true")
	// The kubelet writes the weights of the classes every minute, and the pods of a rollout count.
	becomes(t, f.Node, values(ofSlices), f.before.cgroups)
	f.before.removed(t, f.Node)
	f.forgotten(t)
	want(t, f.Node, "ls -A "+installerFolder+" 2>/dev/null || true", "")
	wantLines(t, "files", run(t, f.Node, installedFiles+" | grep -v ^"+filepath.Dir(installerFolder)), f.before.files)
	want(t, f.Node, f.others, f.untouched)
}

// forgotten: the units of the rollback are gone, and systemd has been reloaded since.
func (f *fleetNode) forgotten(t *testing.T) {
	t.Helper()
	want(t, f.Node, rollbackUnits, "")
	becomes(t, f.Node, "systemctl show -P LoadState partition-install-back.timer", "not-found")
}

// wentBack waits until the rollback has ended, and its units are gone.
func (f *fleetNode) wentBack(t *testing.T) {
	t.Helper()
	becomes(t, f.Node, rollbackUnits, "")
	becomes(t, f.Node, "systemctl is-active partition-install-back.service || true", "inactive")
	becomes(t, f.Node, "systemctl list-units --all --plain --no-legend 'partition-install-*' operator.service", "")
}

// unfit is a node that is refused.
type unfit struct {
	reason, says string
	// spoil and mend are shell commands.
	spoil, mend string
}

func unfitNodes() []unfit {
	// The kubelet is not restarted: the installer reads its file.
	const (
		file   = "/var/lib/kubelet/config.yaml"
		keep   = "cp -p " + file + " /root/kubelet.yaml && "
		mended = "cp -p /root/kubelet.yaml " + file + " && rm /root/kubelet.yaml"
	)
	return []unfit{
		{
			reason: "foreign-file", says: "/usr/bin/partition-monitor",
			spoil: "printf x >/usr/bin/partition-monitor", mend: "rm /usr/bin/partition-monitor",
		},
		{reason: "kubelet-gate", says: "NodeSystemPartition", spoil: keep + "printf 'featureGates:\n  NodeSystemPartition: true\n' >>" + file, mend: mended},
		{
			reason: "no-bus", says: "system bus",
			spoil: "systemctl stop dbus.socket dbus.service", mend: "systemctl start dbus.socket dbus.service",
		},
	}
}

// calm holds what an apply without a change leaves as it is.
type calm struct{ files, reloads, monitor, pid, pods string }

func (f *fleetNode) calm(t *testing.T) calm {
	t.Helper()
	return calm{
		files: run(t, f.Node, written), reloads: run(t, f.Node, reloads), monitor: property(t, f.Node, monitorUnit, "InvocationID"),
		pid: property(t, f.Node, monitorUnit, "MainPID"), pods: run(t, f.Node, "systemctl show -P InvocationID "+systemSlice),
	}
}

// TestInstallerApply: a pod and an operator give a stock node its partition as a trial, by one
// command, and keep it. A change that fails, whose installer or caller is killed, or that meets a
// reboot, leaves the node as it was. A removal leaves nothing.
func TestInstallerApply(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		f := newFleetNode(t, flavour)
		half := wish{section: partitionOf("512Mi", "0-1"), trial: "20m"}
		more := wish{section: partitionOf("520Mi", "0-1"), trial: "20m"}
		isHalf := func(t *testing.T) {
			t.Helper()
			wantLimits(t, f.Node, "536870912", "0-1")
			want(t, f.Node, rollbackUnits, "")
			becomes(t, f.Node, "systemctl is-active "+monitorUnit+" node-partition-trial.timer || true", "active\ninactive")
		}

		t.Run("writes only what is listed", func(t *testing.T) {
			writesOnly(t, f.Node)
			f.podWritesOnly(t)
			f.asBefore(t)
		})
		t.Run("surveyed", func(t *testing.T) {
			survey := half
			survey.survey = true
			if said, status := f.apply(t, survey); status != 0 || said.Reason != "" {
				t.Errorf("status %d, %+v", status, said)
			}
			survey.section = "systemPartition:\n  memoryLimit: 512\n"
			if said, status := f.apply(t, survey); status != 3 || said.Reason != "section" {
				t.Errorf("status %d, %+v", status, said)
			}
			f.asBefore(t)
		})
		for _, u := range unfitNodes() {
			t.Run("refused: "+u.reason, func(t *testing.T) {
				run(t, f.Node, u.spoil)
				said, status := f.apply(t, half)
				run(t, f.Node, u.mend)
				if status != 3 || said.Reason != u.reason || !strings.Contains(said.Message, u.says) {
					t.Errorf("status %d, %+v; want %s, %q", status, said, u.reason, u.says)
				}
				f.asBefore(t)
			})
		}
		t.Run("the monitor cannot start", func(t *testing.T) {
			// The parser, which judges the options before anything is written, takes any value.
			said, status := f.apply(t, wish{section: half.section, trial: "2m", options: "--listen=no-port"})
			if status != 1 || said.Reason != "verify" {
				t.Errorf("status %d, %+v", status, said)
			}
			f.asBefore(t)
		})
		t.Run("the section cannot be kept", func(t *testing.T) {
			run(t, f.Node, "chattr +i /etc/kubernetes")
			said, status := f.apply(t, wish{section: half.section, trial: "3m"})
			run(t, f.Node, "chattr -i /etc/kubernetes")
			if status != 1 || said.Reason != "error" || !strings.Contains(said.Message, "/etc/kubernetes") {
				t.Errorf("status %d, %+v", status, said)
			}
			f.wentBack(t)
			f.asBefore(t)
		})
		t.Run("kept", func(t *testing.T) {
			said, status := f.apply(t, half)
			if status != 0 || said.Reason != "" {
				t.Fatalf("status %d, %+v", status, said)
			}
			isHalf(t)
			inSlice(t, f.Node, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
			want(t, f.Node, servicePIDs, f.before.services)
			want(t, f.Node, f.others, f.untouched)
		})
		t.Run("again", func(t *testing.T) {
			before := f.calm(t)
			if said, status := f.apply(t, half); status != 0 || said.Reason != "unchanged" {
				t.Errorf("status %d, %+v", status, said)
			}
			if after := f.calm(t); after != before {
				t.Errorf("%+v\nwas %+v", after, before)
			}
		})
		t.Run("the installer is killed", func(t *testing.T) {
			f.byOperator(t, more)
			run(t, f.Node, "systemctl kill --signal=KILL 'partition-install-????????????.service'")
			f.wentBack(t)
			isHalf(t)
		})
		t.Run("the installer and its caller are killed", func(t *testing.T) {
			more := more
			more.trial = "1m"
			f.byOperator(t, more)
			run(t, f.Node, "systemctl kill --signal=KILL operator.service 'partition-install-????????????.service'")
			f.wentBack(t) // by the timer
			isHalf(t)
		})
		t.Run("the caller is killed", func(t *testing.T) {
			f.byOperator(t, more)
			run(t, f.Node, "systemctl kill --signal=KILL operator.service")
			f.wentBack(t)
			isHalf(t)
		})
		t.Run("the node boots", func(t *testing.T) {
			f.byOperator(t, more)
			run(t, f.Node, "systemctl kill --signal=KILL operator.service 'partition-install-????????????.service'")
			// The memory that a kernel leaves differs from boot to boot by some pages.
			const ofNode = "echo kubepods.slice/memory.max $(cat " + cgroupRoot + "kubepods.slice/memory.max)"
			before := run(t, f.Node, ofNode)
			if err := f.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			ready(t, f.Node)
			becomes(t, f.Node, "grep -c max "+cgroupRoot+"kubepods.slice/memory.max || true", "0") // by the kubelet
			f.before.cgroups = strings.Replace(f.before.cgroups, before, run(t, f.Node, ofNode), 1)
			f.wentBack(t)
			isHalf(t)
			// The boot has started them again.
			becomes(t, f.Node, f.others+" | wc -w", strconv.Itoa(len(strings.Fields(f.untouched))))
			f.before.services, f.untouched = run(t, f.Node, servicePIDs), run(t, f.Node, f.others)
		})
		t.Run("another section and options, by an operator", func(t *testing.T) {
			more := more
			more.options = "--per-pod-metrics"
			out := run(t, f.Node, operatorsProgram+" '"+strings.Join(f.write(t, more, sectionFolder), "' '")+"' 2>&1 >/dev/null")
			if !strings.HasPrefix(out, "done: ") {
				t.Error(out)
			}
			wantLimits(t, f.Node, "545259520", "0-1")
			want(t, f.Node, "tr '\\0' ' ' </proc/$(systemctl show -P MainPID "+monitorUnit+")/cmdline", monitorPath+" run --move=restart --per-pod-metrics")
		})
		t.Run("removed", func(t *testing.T) {
			remove := []string{"remove", "--node=" + f.Name, "--version=v1"}
			if said, status := f.inPod(t, remove); status != 0 || said.Reason != "" {
				t.Fatalf("status %d, %+v", status, said)
			}
			f.asBefore(t)
			if said, status := f.inPod(t, remove); status != 0 || said.Reason != "unchanged" {
				t.Errorf("again: status %d, %+v", status, said)
			}
			f.asBefore(t)
		})
		t.Run("a read-only usr", func(t *testing.T) {
			// The drop-in of the lab names the program.
			const dropIns = "/etc/systemd/system/" + monitorUnit + ".d/*.conf"
			run(t, f.Node, "cp -a "+filepath.Dir(dropIns)+" /root/drop-ins && sed -i s:"+monitorPath+":/etc/systemd/node-partition/current/partition-monitor: "+dropIns+
				" && mount --bind /usr /usr && mount -o remount,bind,ro /usr")
			if said, status := f.apply(t, half); status != 0 {
				t.Errorf("status %d, %+v", status, said)
			}
			isHalf(t)
			out := run(t, f.Node, operatorsProgram+" remove 2>&1 >/dev/null; umount --lazy /usr && cp -a /root/drop-ins/. "+filepath.Dir(dropIns)+" && systemctl daemon-reload")
			if !strings.HasPrefix(out, "done: ") {
				t.Error(out)
			}
			f.asBefore(t)
		})
		if t.Failed() {
			t.Log(run(t, f.Node, "journalctl --no-pager -o short-monotonic -u 'partition-install*' -u operator -u node-partition-trial.service | tail -200"))
		}
	})
}
