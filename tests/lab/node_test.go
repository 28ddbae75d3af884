//go:build node

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNode tests all methods of Node on real nodes, one for each runtime.
func TestNode(t *testing.T) {
	for _, flavour := range []string{"trixie", "crio"} {
		t.Run(flavour, func(t *testing.T) {
			f, err := FlavourByName(flavour)
			if err != nil {
				t.Fatal(err)
			}
			takeThrough(t, f, false)
		})
	}
}

// generator records what a systemd generator finds when it runs for the first time.
const generator = `#!/bin/sh
cat /proc/cmdline >/run/lab-generator-saw
ls /var/lib/kubelet/config.yaml /etc/kubernetes/manifests >>/run/lab-generator-saw 2>&1
`

func takeThrough(t *testing.T, f Flavour, late bool) {
	t.Helper()
	ctx := t.Context()
	config, err := KubeletConfig("maxPods: 42\n")
	if err != nil {
		t.Fatal(err)
	}
	n := ForTest(t, Options{
		Flavour: f.Name, LateVar: late, KernelArgs: []string{"lab_test=1"},
		Files: []File{config, {Path: "/etc/systemd/system-generators/lab-generator", Data: []byte(generator)}},
	})
	began := time.Now()
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: ready %.1f s after the start of qemu, %.1f s after ssh", f.Name, time.Since(n.Started).Seconds(), time.Since(began).Seconds())

	saw, err := n.readFile(ctx, "/run/lab-generator-saw")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(saw), "lab_test=1") || !strings.Contains(string(saw), "user-app.yaml") {
		t.Errorf("the generator saw:\n%s", saw)
	}
	if sawConfig := !strings.Contains(string(saw), "No such file"); sawConfig == late {
		t.Errorf("late /var %v, and the generator saw:\n%s", late, saw)
	}
	if got, err := n.readFile(ctx, KubeletConfigPath); err != nil || !strings.HasSuffix(string(got), "maxPods: 42\n") {
		t.Errorf("kubelet configuration: %v:\n%s", err, got)
	}
	mounted, err := n.Run(ctx, "awk '$2 == \"/var\"' /proc/mounts")
	if err != nil || (mounted != "") != late {
		t.Errorf("late /var %v, mounted %q, %v", late, mounted, err)
	}

	tree, err := n.CgroupTree(ctx, "memory.max", "cpu.weight")
	if err != nil {
		t.Fatal(err)
	}
	// CRI-O has no process for a sandbox whose namespaces need none (drop_infra_ctr), and may put the
	// process that watches a container beside it.
	scopes, want := 0, map[string]int{"crio": 3}[f.Name]
	if want == 0 {
		want = 6
	}
	for _, c := range tree {
		if strings.HasPrefix(c.Path, "/kubepods.slice/") && strings.HasSuffix(c.Path, ".scope") && !strings.Contains(c.Path, "conmon") {
			scopes++
			if c.Values["memory.max"] != "max" || c.Values["cpu.weight"] == "" {
				t.Errorf("%s: %v", c.Path, c.Values)
			}
		}
	}
	if scopes != want {
		t.Errorf("%d scopes below kubepods.slice, want %d", scopes, want)
	}

	var failed *CommandError
	if _, err := n.Run(ctx, "echo out; echo why >&2; exit 3"); !errors.As(err, &failed) || failed.Status != 3 || failed.Stderr != "why\n" || failed.Stdout != "out\n" {
		t.Errorf("error %v", err)
	}

	manifest := []byte(`apiVersion: v1
kind: Pod
metadata: {name: extra, namespace: kube-system}
spec:
  containers:
  - name: main
    image: lab.local/busybox:1
    imagePullPolicy: Never
    command: ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"]
`)
	began = time.Now()
	if _, err := n.ApplyPod(ctx, manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WaitPod(ctx, "kube-system", "extra"); err != nil {
		t.Fatal(err)
	}
	t.Logf("a pod runs %.1f s after its manifest", time.Since(began).Seconds())
	began = time.Now()
	if err := n.DeletePod(ctx, "extra"); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitNoPod(ctx, "kube-system", "extra"); err != nil {
		t.Fatal(err)
	}
	if running, err := n.runningContainers(ctx, "default", "user-app"); err != nil || len(running) != 2 {
		t.Errorf("a sandbox and a container of default/user-app: %v, %v", running, err)
	}
	t.Logf("a pod is gone %.1f s after its manifest", time.Since(began).Seconds())

	// Changes at runtime survive a reboot: the seed is not applied again.
	for _, file := range []string{KubeletConfigPath, "/etc/note"} {
		if err := n.WriteFile(ctx, file, append(config.Data, "# changed\n"...), 0); err != nil {
			t.Fatal(err)
		}
	}
	began = time.Now()
	if err := n.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	answered := time.Since(began)
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("reboot: ssh after %.1f s, ready after %.1f s", answered.Seconds(), time.Since(began).Seconds())
	for _, file := range []string{KubeletConfigPath, "/etc/note"} {
		if got, err := n.readFile(ctx, file); err != nil || !strings.HasSuffix(string(got), "# changed\n") {
			t.Errorf("%s after the reboot: %v", file, err)
		}
	}
	if _, err := n.Run(ctx, "journalctl -q -b -1 -n 1 -u kubelet"); err != nil {
		t.Errorf("the journal of the boot before: %v", err)
	}

	dir := t.TempDir()
	began = time.Now()
	if err := n.Collect(ctx, dir); err != nil {
		t.Error(err)
	}
	t.Logf("collected in %.1f s", time.Since(began).Seconds())
	for _, c := range append(collected(), [2]string{"console.log"}) {
		if info, err := os.Stat(filepath.Join(dir, c[0])); err != nil || info.Size() == 0 {
			t.Errorf("%s: empty: %v", c[0], err)
		}
	}
}
