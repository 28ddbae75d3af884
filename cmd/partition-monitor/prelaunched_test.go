package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

// prelaunching is a runtime of a fake node that starts partition-monitor as a plugin.
type prelaunching struct {
	*adaptation.Adaptation
	n       *fakeNode
	journal *net.UnixConn
}

// startRuntime starts the runtime and with it the plugin, whose output goes to the node's journal.
func (n *fakeNode) startRuntime() *prelaunching {
	n.t.Helper()
	unshare := testkit.NeedProgram(n.t, "unshare", "util-linux")
	program, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	// The runtime starts a link to the program, without arguments. Here it starts a shell that enters
	// the node first.
	const folder = "/opt/nri/plugins"
	n.Script(folder+"/91-node-partition", fmt.Sprintf("%s=%s exec %s --user --map-root-user --mount %s",
		nodeRoot, n.Root, unshare, program))
	socket := filepath.Join(n.Root, "run/systemd/journal/socket")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		n.t.Fatal(err)
	}
	journal, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = journal.Close() })
	runtime, err := adaptation.New("containerd", "v2.3.7",
		func(ctx context.Context, synced adaptation.SyncCB) error { _, err := synced(ctx, nil, nil); return err },
		func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
			return nil, nil
		},
		adaptation.WithPluginPath(filepath.Join(n.Root, folder)), adaptation.WithPluginConfigPath(n.t.TempDir()),
		adaptation.WithSocketPath(filepath.Join(n.Root, "run/nri/nri.sock")))
	if err != nil {
		n.t.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(runtime.Stop)
	return &prelaunching{runtime, n, journal}
}

// placed creates a container of kube-system as containerd does, and reports whether it was placed.
func (r *prelaunching) placed() bool {
	r.n.t.Helper()
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(fakenode.UID, "-", "_") + ".slice"
	return r.placedFrom(slice, slice+":cri-containerd:one")
}

// placedFrom is placed with a container's cgroup path below another parent.
func (r *prelaunching) placedFrom(slice, path string) bool {
	r.n.t.Helper()
	defer r.BlockPluginSync().Unblock()
	answer, err := r.CreateContainer(r.n.t.Context(), &adaptation.CreateContainerRequest{
		Pod:       &api.PodSandbox{Id: "s", Uid: fakenode.UID, Namespace: "kube-system", Name: "a", Linux: &api.LinuxPodSandbox{CgroupParent: slice}},
		Container: &api.Container{Id: "one", Name: "main", Linux: &api.LinuxContainer{CgroupsPath: path}},
	})
	if err != nil {
		r.n.t.Fatalf("the runtime would not create the container: %v", err)
	}
	return strings.HasPrefix(answer.GetAdjust().GetLinux().GetCgroupsPath(), "kubepods-system-burstable-pod")
}

// logged waits for a record of the journal.
func (r *prelaunching) logged(text string) {
	r.n.t.Helper()
	record, err := r.record()
	if err != nil {
		r.n.t.Fatalf("%v; want a record with %q", err, text)
	}
	if !strings.Contains(record, text) {
		r.n.t.Errorf("%q is logged, want %q", record, text)
	}
}

// record waits for a record of the journal, for a minute.
func (r *prelaunching) record() (string, error) {
	if err := r.journal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	buffer := make([]byte, 1<<16)
	size, err := r.journal.Read(buffer)
	return string(buffer[:size]), err
}

// TestPrelaunchedHandsOver: the plugin places until the service is connected, and ends. No
// container is missed on the way.
func TestPrelaunchedHandsOver(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system"))
	n.Partition("67108864")
	r := n.startRuntime()
	if !r.placed() {
		t.Fatal("the first container is not placed")
	}
	service := n.program("run", "--listen=", "--move=never")
	var log bytes.Buffer
	service.Stderr = &log
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _ = service.Process.Kill(), service.Wait(); t.Failed() {
			t.Logf("the service has logged:\n%s", &log)
		}
	})
	type result struct {
		record string
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		record, err := r.record()
		ended <- result{record, err}
	}()
	for created, waiting := 1, true; waiting; created++ {
		select {
		case last := <-ended:
			const handedOver = "partition-monitor.service is connected; the pre-launched plugin ends"
			if last.err != nil || !strings.Contains(last.record, handedOver) || strings.Contains(last.record, "placed=0") {
				t.Fatalf("%q, %v is logged, want %q and those that were placed", last.record, last.err, handedOver)
			}
			waiting = false
		case <-time.After(5 * time.Millisecond):
		}
		if !r.placed() {
			t.Fatalf("container %d is not placed", created)
		}
	}
	for range 100 {
		if !r.placed() {
			t.Fatal("a container is not placed after the plugin has ended")
		}
	}
}

// TestPrelaunchedUnknownMembers: containers start where the kubelet puts them while there are no
// members, and are placed once there are, without another start of the plugin.
func TestPrelaunchedUnknownMembers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(n *fakeNode)
		logged  string
	}{
		"no section":   {func(n *fakeNode) { n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("")); n.Generate(0) }, ""},
		"no decision":  {func(n *fakeNode) { n.RemoveAll("/run/node-partition") }, "there is no decision"},
		"switched off": {func(n *fakeNode) { n.Write("/proc/cmdline", "quiet node_partition=0") }, ""},
		"not active":   {func(n *fakeNode) { n.RemoveAll("/sys/fs/cgroup/kubepods.slice") }, ""},
		"masked": {func(n *fakeNode) {
			n.Write("/etc/systemd/system/.keep", "")
			if err := os.Symlink("/dev/null", filepath.Join(n.Root, "etc/systemd/system/partition-monitor.service")); err != nil {
				n.t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, fakenode.Valid("kube-system"))
			n.Partition("67108864")
			test.prepare(n)
			r := n.startRuntime()
			if r.placed() {
				t.Error("placed")
			}
			if test.logged != "" {
				r.logged(test.logged)
			}
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
			n.Write("/proc/cmdline", "quiet")
			n.RemoveAll("/etc/systemd/system/partition-monitor.service")
			n.Generate(0)
			n.Partition("67108864")
			if !r.placed() {
				t.Error("not placed when the members are known")
			}
		})
	}
}

// TestPrelaunchedBrokenWithoutPartition: where nothing is to be placed, a broken configuration is
// not reported. A later reason is.
func TestPrelaunchedBrokenWithoutPartition(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Broken)
	r := n.startRuntime()
	if r.placed() {
		t.Error("placed without a partition")
	}
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Valid("kube-system"))
	n.Generate(0)
	n.Partition("67108864")
	if r.placedFrom("/kubepods/burstable/pod1", "/kubepods/burstable/pod1/one") {
		t.Error("placed from a cgroup that is not the kubelet's")
	}
	r.logged("is not a pod's slice of the kubelet's systemd cgroup driver")
}

// TestPrelaunchedDecision: the plugin follows the decision, whatever was edited since.
func TestPrelaunchedDecision(t *testing.T) {
	t.Parallel()
	for namespace, placed := range map[string]bool{"kube-system": true, "monitoring": false} {
		n := newNode(t, fakenode.Valid(namespace))
		n.Partition("67108864")
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Broken)
		if r := n.startRuntime(); r.placed() != placed {
			t.Errorf("members of %s: placed: %t", namespace, !placed)
		}
	}
}
