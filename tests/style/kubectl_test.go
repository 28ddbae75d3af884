package style

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/tests/testkit"
)

// fakeKubectl answers as kubectl does, from files of its folder, and logs how it is called.
const fakeKubectl = `#!/bin/sh
cd "${0%/*}"
printf '%s\n' "$*" >>calls
case "$*" in
*' auth can-i '*) ! grep -qxF "${*#* --quiet }" denied ;;
*api-resources*) echo nodepartitions.node-partition.io ;;
*'get nodes '*) cat nodes ;;
*'get nodepartitions '*) cat partitions ;;
*'get deployments '*) cat controllers ;;
*'create --filename=-'*) cat >pod ;;
*terminated.exitCode*) cat exit ;;
*.status.phase*) cat phase ;;
*'logs --follow'*) [ ! -s nolog ] || exit 1; echo said; [ ! -e hangs ] || exec tail -f /dev/null ;;
esac
`

// newPlugin returns the plugin, as kubectl calls it, with a fake kubectl in a folder.
func newPlugin(t *testing.T, files map[string]string, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	testkit.WriteScript(t, filepath.Join(dir, "kubectl"), fakeKubectl)
	for _, name := range []string{"denied", "nodes", "partitions", "controllers", "exit", "phase", "nolog"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd = exec.Command("../../deploy/kubectl/kubectl-node_partition", args...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	return cmd, dir
}

// called returns how kubectl was called, and the pod that it was to make.
func called(t *testing.T, dir string) (calls string, pod v1.Pod) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pod"))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &pod)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err, string(text))
	}
	return string(log), pod
}

const (
	controllers = "fleet\thub/image@sha256:1\t[{\"name\":\"pull\"}]\t\n"
	ended       = "Succeeded : "
)

// TestPlugin: what people see of kubectl node-partition, with its exit status.
func TestPlugin(t *testing.T) {
	t.Parallel()
	const well = "a\tkept\t\tTrue\tPartitionsActive\tall in place; boot 1f\t1f\t\nb\t\t\t\t\t\t2f\t\n"
	onNode := map[string]string{"controllers": controllers, "exit": "1", "phase": ended}
	with := func(name, text string) map[string]string {
		files := map[string]string{name: text}
		for other, text := range onNode {
			if other != name {
				files[other] = text
			}
		}
		return files
	}
	for _, c := range []struct {
		name   string
		line   string
		files  map[string]string
		status int
		want   string
	}{
		{"no command", "", nil, 2, "want status, check or explain"},
		{"another command", "statsu", nil, 2, "want status, check or explain"},
		{"no value", "status --node", nil, 2, "--node: want a value"},
		{"an argument without a node", "check -v", nil, 2, "-v: want it with --node"},
		{"a page without a node", "explain swap", nil, 2, "explain: want --node"},
		{"help", "check --help", nil, 0, "Usage: kubectl node-partition"},
		{"lists", "status --watch", map[string]string{"nodes": "NODE\na\n", "partitions": "NAME\ngeneral\n"}, 0, "NODE\na\n\nNAME\ngeneral\n"},
		{"nothing wrong", "check", map[string]string{"nodes": well}, 0, "1 of 2 nodes are known to have a system partition"},
		{"a try that has failed", "check", map[string]string{"nodes": "a\tfailed\tverify\t\t\t\t1f\t\t\n"}, 1, "node/a: the last try failed: verify\n"},
		{
			"a try that was refused, with its message", "check",
			map[string]string{"nodes": "a\trefused\tsection\t\t\t\t1f\t{\"want\":\"1\",\"message\":\"cpuset: \\\"4-5\\\": no CPU 4-5\",\"tries\":1}\t\n"},
			1, "node/a: the last try was refused: section: cpuset: \\\"4-5\\\": no CPU 4-5\n",
		},
		{"a condition from before the boot", "check", map[string]string{"nodes": strings.Replace(well, "\t1f", "\t3f", 1)}, 1, "node/a: no monitor has run since its boot\n"},
		{
			"a condition that is not true", "check", map[string]string{"nodes": "a\tkept\t\tFalse\tPodsMisplaced\t2 pods; boot 1f\t1f\t\n"},
			1, "node/a: PodsMisplaced: 2 pods; boot 1f\n",
		},
		{
			"a rollout that has stopped", "check", map[string]string{"nodes": well, "partitions": "general\tTrue\t\tTrue\tfailed: a (verify)\t\n"},
			1, "nodepartition/general: failed: a (verify)\n",
		},
		{
			"a field that has no effect", "check", map[string]string{"nodes": well, "partitions": "general\tTrue\tunknown field \"memorylimt\", ignoring\tFalse\t\t\n"},
			0, "nodepartition/general: unknown field \"memorylimt\", ignoring\n",
		},
		{"the exit status of the node's program", "check --node a", onNode, 1, "said\n"},
		{"no controller", "check --node=a", with("controllers", ""), 1, "name one with --image"},
		{"a right that is missing", "check --node=a", with("denied", "get pods --subresource=log\n"), 1, "you may not get pods --subresource=log in namespace fleet: see kubectl auth can-i get pods --subresource=log"},
		{"a log that cannot be read", "check --node=a", with("nolog", "yes"), 1, "does the API server reach the kubelet of a?"},
		{"an image that is not there", "check --node=a", with("phase", "Pending ErrImagePull: no such image"), 1, "ErrImagePull: no such image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd, dir := newPlugin(t, c.files, strings.Fields(c.line)...)
			out, err := cmd.CombinedOutput()
			calls, pod := called(t, dir)
			if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(string(out), c.want) {
				t.Errorf("%d, %v, %s; want %d, %s; kubectl was called with\n%s", status, err, out, c.status, c.want, calls)
			}
			if removed := strings.Contains(calls, "delete pod "+pod.Name+" "); pod.Name != "" && !removed {
				t.Errorf("the pod stays: %s", calls)
			}
			if c.files["denied"] != "" && pod.Name != "" {
				t.Error("a pod was made without the right to remove it")
			}
		})
	}
}

// TestPluginPod: the pod is on the node, has the image of the controller and its secrets, and runs
// the command with all arguments, in each call with the same context and namespace.
func TestPluginPod(t *testing.T) {
	t.Parallel()
	files := map[string]string{"controllers": controllers, "exit": "0", "phase": ended}
	cmd, dir := newPlugin(t, files, "status", "--context=west", "--node=a", "-o", `"json\`, "--watch")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	calls, pod := called(t, dir)
	container := pod.Spec.Containers[0]
	command := strings.Join(container.Command, " ")
	if want := `/partition-installer monitor status -o "json\ --watch`; pod.Spec.NodeName != "a" || command != want ||
		container.Image != "hub/image@sha256:1" || pod.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("node %s, image %s, command %s; want %s", pod.Spec.NodeName, container.Image, command, want)
	}
	for call := range strings.Lines(calls) {
		if !strings.HasPrefix(call, "--context=west ") || strings.Contains(call, " pod ") && !strings.Contains(call, " --namespace=fleet ") {
			t.Errorf("kubectl %s is in another cluster or namespace", call)
		}
	}
}

// TestPluginInterrupted: the pod is removed when its reader is interrupted.
func TestPluginInterrupted(t *testing.T) {
	t.Parallel()
	files := map[string]string{"controllers": controllers, "phase": "Running : "}
	cmd, dir := newPlugin(t, files, "status", "--node=a", "--watch")
	if err := os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell with jobs does
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("said\n"))
	if _, err := io.ReadFull(stdout, said); err != nil || !bytes.Equal(said, []byte("said\n")) {
		t.Errorf("%q, %v", said, err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	calls, pod := called(t, dir)
	if status := cmd.ProcessState.ExitCode(); status != 130 || !strings.Contains(calls, "delete pod "+pod.Name+" ") {
		t.Errorf("exit status %d, and kubectl was called with\n%s", status, calls)
	}
}
