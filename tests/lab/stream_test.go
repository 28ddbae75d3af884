//go:build node

package lab

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
)

// podtoolPods returns static pods whose actions the streams show.
func podtoolPods() []File {
	manifest := func(name, image, args string) File {
		return File{Path: manifestPath(name), Data: []byte(`apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: default}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: ` + image + `
    imagePullPolicy: Never
    args: ` + args + `
    securityContext: {capabilities: {add: [MKNOD]}}
`)}
	}
	return []File{
		manifest("echo", PodtoolImage, `["echo", "7777"]`),
		manifest("device", PodtoolImage, `["device", "/tmp/device", "c", "1", "11"]`),
		manifest("forks", PodtoolImage, `["forks"]`),
		manifest("alloc", PodtoolImage, `["alloc", "8Mi"]`),
		manifest("grow", PodtoolImage, `["grow", "1Mi", "1Mi", "3Mi"]`),
		manifest("read", PodtoolImage, `["read", "/tmp", "1Mi", "4Mi"]`),
		manifest("shell", BusyboxImage, `["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"]`),
	}
}

// TestNodeStreams tests exec, logs, attach and port-forward with podtool's subcommands.
func TestNodeStreams(t *testing.T) {
	for _, f := range Flavours() {
		t.Run(f.Name, func(t *testing.T) {
			n := ForTest(t, Options{Flavour: f.Name, NoPods: true, Files: podtoolPods()})
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Run("exec", func(t *testing.T) { testExec(t, n) })
			t.Run("logs", func(t *testing.T) { testLogs(t, n) })
			t.Run("attach", func(t *testing.T) { testAttach(t, n) })
			t.Run("port-forward", func(t *testing.T) { testPortForward(t, n) })
		})
	}
}

func testExec(t *testing.T, n *Node) {
	t.Helper()
	if out, err := n.Exec(t.Context(), "default", "shell", "main", "echo", "two words"); err != nil || out != "two words\n" {
		t.Errorf("%q, %v", out, err)
	}
	var failed *CommandError
	_, err := n.Exec(t.Context(), "default", "shell", "main", "sh", "-c", "echo out; echo why >&2; exit 3")
	if !errors.As(err, &failed) || failed.Status != 3 || failed.Stdout != "out\n" || failed.Stderr != "why\n" {
		t.Errorf("error %v", err)
	}
	if _, err := n.Exec(t.Context(), "default", "nobody", "main", "true"); !errors.Is(err, errNoPod) {
		t.Errorf("error %v", err)
	}
}

func testLogs(t *testing.T, n *Node) {
	t.Helper()
	for pod, want := range map[string]string{"alloc": "ready\n", "forks": "ready\n", "read": "ready\n", "grow": "ready\nfull\n"} {
		if err := n.waitLogs(t.Context(), pod, want); err != nil {
			t.Error(err)
		}
	}
}

// waitLogs waits until the container "main" of a pod has written want: it runs before it writes.
func (n *Node) waitLogs(ctx context.Context, pod, want string) error {
	return n.Eventually(ctx, "logs of "+pod, func(ctx context.Context) (bool, string, error) {
		out, err := n.Logs(ctx, "default", pod, "main")
		return out == want, out, err
	})
}

// The kernel's log is a device that no container may open by default.
func testAttach(t *testing.T, n *Node) {
	t.Helper()
	stream, err := n.Attach(t.Context(), "default", "device", "main")
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stream).ReadString('\n')
	if err != nil || line != "denied: EPERM\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

func testPortForward(t *testing.T, n *Node) {
	t.Helper()
	conn, err := n.PortForward(t.Context(), "default", "echo", 7777)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	refused, err := n.PortForward(t.Context(), "default", "echo", 7778)
	if err == nil {
		_, err = io.ReadAll(refused)
		refused.Close()
	}
	if err == nil {
		t.Error("a port that nobody listens on can be reached")
	}
}
