package main

import (
	"bufio"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// evicting runs the service, makes memory scarce when the service has the pods, and stops it when a
// line of its log contains until. It calls heard with each line.
func (n *fakeNode) evicting(until string, heard func(line string), args ...string) {
	n.t.Helper()
	cmd := n.program(append([]string{"run", "--listen=", "--move=never"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	watchdog := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	var log strings.Builder // all lines
	found, connections := false, 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "to=kubelet up=true") || strings.Contains(lines.Text(), "to=runtime up=true") {
			if connections++; connections == 2 {
				n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Scarce)
			}
		}
		heard(lines.Text())
		if strings.Contains(lines.Text(), until) && !found {
			found = true
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				n.t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !found {
		n.t.Errorf("%v; want %q in\n%s", err, until, &log)
	}
}

// TestServiceEvicts: the service kills the containers of the first candidate, reports to the API
// server, and leaves all other pods alone.
func TestServiceEvicts(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	c := fakeapi.New(t, httptest.NewServer)
	c.Pod.Spec.Containers = []v1.Container{fakeapi.Requesting("dns", fakenode.Pods[0].Request)}
	// It has kubeadm's path, which auto finds.
	c.Kubeconfig(t, filepath.Join(n.Root, "/etc/kubernetes/kubelet.conf"))
	var decided string
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "evicting a pod") {
			decided = line
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
		}
	})
	if killed := n.Killed(); !slices.Equal(killed, []string{"dns"}) {
		t.Errorf("killed: %v; want dns alone", killed)
	}
	for _, part := range []string{
		"namespace=kube-system pod=dns", "threshold=hard available=10Mi below=32Mi limit=96Mi used=30Mi working-set=30Mi request=10Mi estimated=false priority=10",
		"MESSAGE_ID=89c4cdf13b994233ab91955cce1e6c7e", "method=evict",
	} {
		if !strings.Contains(decided, part) {
			t.Errorf("%q does not say %q", decided, part)
		}
	}
	// What an earlier run may have left on the Node is removed. The last request confirms the status.
	came := slices.DeleteFunc(c.Came(), func(line string) bool { return strings.HasPrefix(line, "PATCH /api/v1/nodes/") })
	if !slices.Equal(came, []string{fakeapi.GetPod, fakeapi.PatchPod, fakeapi.PostEvent, fakeapi.GetPod}) {
		t.Errorf("the API server was asked %v", came)
	} else if message := c.Events[0].Message; !strings.Contains(message, "Container dns was using 30Mi, request is 10Mi") {
		t.Errorf("the event has the message %q", message)
	}
	// status lists the eviction afterwards.
	e := n.status().Partitions[0].Eviction
	if e == nil || len(e.Last) != 1 || e.Last[0].Name != "dns" || e.Last[0].Method != evict.Evict || e.Last[0].Problem != "" || len(e.Open) > 0 {
		t.Errorf("status: %+v", e)
	}
}

// TestServiceEvictsWithoutAPIServer: without a kubeconfig the containers are stopped, and the
// kubelet starts them again.
func TestServiceEvictsWithoutAPIServer(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	why := 0
	n.evicting("an eviction has ended", func(line string) {
		if strings.Contains(line, "evictions are not reported to the API server") && strings.Contains(line, "--kubeconfig") {
			why++
		}
		if strings.Contains(line, "stopping the containers of a pod") {
			n.Write(fakenode.SystemCgroup+"/memory.current", fakenode.Plenty)
			n.End(fakenode.Pods[0])
		}
	})
	if killed := n.Killed(); !slices.Equal(killed, []string{"dns"}) || why != 1 {
		t.Errorf("killed: %v; logged %d times why evictions are not reported", killed, why)
	}
	if e := n.status().Partitions[0].Eviction; len(e.Last) != 1 || e.Last[0].Method != evict.Restart {
		t.Errorf("status: %+v", e)
	}
}
