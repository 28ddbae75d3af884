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
	n.write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", fmt.Sprint(cmd.Process.Pid))
}

// TestKubeletGate: a kubelet that makes the partition itself is left alone, whether its gate is set
// by a flag or in its configuration.
func TestKubeletGate(t *testing.T) {
	t.Parallel()
	const gates = "featureGates: {NodeSystemPartition: true}"
	for name, test := range map[string]struct {
		flags  []string
		file   string
		yields bool
	}{
		"none":                 {nil, "", false},
		"with =":               {[]string{"--feature-gates=NodeSystemPartition=true"}, "", true},
		"as the next argument": {[]string{"--v", "2", "--feature-gates", "A=true,NodeSystemPartition=true"}, "", true},
		// Its program cannot be read, which counts as one with the gate.
		"all that are alpha":                  {[]string{"--feature-gates=AllAlpha=true"}, "", true},
		"the file, which the generator reads": {[]string{"--feature-gates=NodeSystemPartition=false"}, gates, true},
		"another gate":                        {[]string{"--feature-gates=AllBeta=true"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, valid("kube-system")+test.file)
			n.partition("67108864")
			n.serve(&fakeRuntime{})
			n.runKubelet(test.flags...)
			_, stdout, _ := n.run("check", "--listen=")
			if yields := strings.Contains(stdout, "the kubelet makes the system partition itself"); yields != test.yields {
				t.Errorf("yields: %t; want %t:\n%s", yields, test.yields, stdout)
			}
			if !test.yields {
				return
			}
			if status, _, stderr := n.run("run", "--listen="); status != exitOK || !strings.Contains(stderr, "leaving it alone") {
				t.Errorf("run: status %d, %q; want that it ends by itself", status, stderr)
			}
		})
	}
}

// TestKubeletGateLater: if a kubelet with the gate starts after the service, the service exits.
func TestKubeletGateLater(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.tellPods()
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
