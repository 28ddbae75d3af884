package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// runKubelet starts a process with the name and the flags of a kubelet, in the cgroup of its
// service.
func (n *fakeNode) runKubelet(flags ...string) {
	n.t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args = append([]string{"kubelet", "-c", "read wait"}, flags...)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = stdin.Close() // the process ends
		_ = cmd.Wait()
	})
	n.Write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", fmt.Sprint(cmd.Process.Pid))
}

// TestKubeletGateLater: if a kubelet with the gate starts after the service, the service exits.
func TestKubeletGateLater(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	cmd := n.program("run", "--listen=", "--move=never")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	yielded := false
	var log strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "to=runtime up=true") {
			n.runKubelet("--feature-gates=NodeSystemPartition=true")
		}
		yielded = yielded || strings.Contains(lines.Text(), "leaving it alone")
	}
	if err := cmd.Wait(); err != nil || !yielded {
		t.Errorf("%v; yielded: %t\n%s", err, yielded, &log)
	}
}
