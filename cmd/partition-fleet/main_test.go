package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodepartition/internal/fleet"
	"nodepartition/tests/fakeapi"
)

const (
	roll    = "version: v2\n"
	header  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	section = header + "systemPartition:\n  namespaces: [kube-system]\n  memoryLimit: 12%\n"
	job     = `apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: keep}]
`
)

// folder writes the files of a ConfigMap, and returns its path.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"roll.yaml": roll, "section.yaml": section, "job.yaml": job, "uninstall.yaml": job} {
		if other, has := files[name]; has {
			text = other
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fleetOf runs the program against an API server, and returns what it writes.
func fleetOf(t *testing.T, api *fakeapi.Fleet, args ...string) (code int, stdout, stderr, message string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(log, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = append(args, "--termination-log="+log)
	}
	var out, messages bytes.Buffer
	code = run(t.Context(), args, &out, &messages, func(kubeconfig string) (*rest.Config, error) {
		if api == nil {
			return nil, errors.New("no credentials for " + kubeconfig)
		}
		return api.Config(), nil
	})
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), messages.String(), string(data)
}

// TestUsage: wrong options end before the API server is asked, with what is wanted.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := folder(t, nil)
	with := func(args ...string) []string {
		return append([]string{"roll", "--namespace=n", "--release=r", "--image=i", "--config=" + filepath.Join(dir, "roll.yaml")}, args...)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no command":      {nil, "no command: want roll, add or uninstall"},
		"an option first": {[]string{"--namespace=n"}, "no command"},
		"unknown command": {[]string{"rol"}, `unknown command; want roll, add or uninstall`},
		"unknown option":  {with("--parallel=3"), "flag provided but not defined: -parallel"},
		"more words":      {with("now"), `want options only after the command`},
		"no release":      {[]string{"roll", "--namespace=n"}, "--namespace and --release: both are needed"},
		"no revision":     {with("--revision=0"), "--revision: want a number from 1 on"},
		"no settings":     {[]string{"roll", "--namespace=n", "--release=r", "--config=/nowhere/roll.yaml"}, "--config: open /nowhere/roll.yaml: no such file or directory"},
		"no section":      {with("--section=/nowhere"), "--section: open /nowhere: no such file or directory"},
		"no Job":          {with("--job=/nowhere"), "--job: open /nowhere: no such file or directory"},
		"no image":        {with("--image="), "container keep: has no image"},
		"no credentials":  {with("--kubeconfig=/k"), "credentials for the API server: no credentials for /k; outside of a pod, name them with --kubeconfig"},
	} {
		code, stdout, stderr, _ := fleetOf(t, nil, test.args...)
		if code != fleet.CodeUsage || stdout != "" || !strings.HasPrefix(stderr, "partition-fleet: ") || !strings.Contains(stderr, test.want) ||
			!strings.HasSuffix(stderr, "; see partition-fleet --help\n") {
			t.Errorf("%s: %d, %q, %q; want %s", name, code, stdout, stderr, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr, _ := fleetOf(t, nil, "--help")
	for _, want := range []string{"Usage: partition-fleet COMMAND", "uninstall", "-lock-namespace NAME", "kube-system"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q: has no %q", stdout, want)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("%d, %q", code, stderr)
	}
	if code, stdout, _, _ := fleetOf(t, nil, "--version"); code != 0 || stdout != "partition-fleet unknown\n" {
		t.Errorf("%d, %q", code, stdout)
	}
}

// TestSection: a section that the nodes would refuse, and one for the kubelet, make no request.
func TestSection(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"systemPartition: {namespaces: [kube-system], memoryLimit: 4GB}": "systemPartition.memoryLimit",
		"systemPartition: {memoryLimit: 4Gi}":                            "systemPartition.namespaces",
	} {
		dir := folder(t, map[string]string{"section.yaml": header + text})
		code, _, stderr, message := fleetOf(t, nil, "roll", "--namespace=n", "--release=r", "--image=i", "--config="+filepath.Join(dir, "roll.yaml"))
		if code != fleet.CodeRefused || !strings.Contains(stderr, "partition-fleet: refused, and no Job was made: the nodes would refuse the section\n") ||
			!strings.Contains(message, filepath.Join(dir, "section.yaml")+": "+want) {
			t.Errorf("%q: %d, %q, message %q; want %s", text, code, stderr, message, want)
		}
	}
}

// TestCommands: each command reads its own Job, and the release is known by its namespace.
func TestCommands(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"job.yaml": ""})
	args := []string{"--namespace=n", "--release=r", "--image=i", "--config=" + filepath.Join(dir, "roll.yaml")}
	if code, _, stderr, _ := fleetOf(t, nil, append([]string{"roll"}, args...)...); code != fleet.CodeUsage || !strings.Contains(stderr, "job.yaml") {
		t.Errorf("%d, %q", code, stderr)
	}
	api := fakeapi.NewFleet()
	api.Put("/api/v1/namespaces/n/configmaps", &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "node-partition"}})
	if err := os.Remove(filepath.Join(dir, "section.yaml")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr, message := fleetOf(t, api, append([]string{"uninstall"}, args...)...)
	if code != fleet.CodeDone || message != "0 nodes have no file of it any more\n" || !strings.Contains(stderr, "partition-fleet: "+message) {
		t.Errorf("%d, %q, message %q", code, stderr, message)
	}
	code, _, stderr, message = fleetOf(t, api, "add", "--namespace=n", "--release=x/y", "--image=i", "--config="+filepath.Join(folder(t, nil), "roll.yaml"))
	if code != fleet.CodeDone || message != "nothing to do: no roll of this release has come to its end\n" {
		t.Errorf("%d, %q, message %q", code, stderr, message)
	}
}

// TestInterrupt: a signal ends it with its own status, also while it waits for the API server.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := folder(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	api := fakeapi.NewFleet()
	api.Refuse = func(string, *http.Request) int {
		stop()
		return http.StatusServiceUnavailable
	}
	var out, messages bytes.Buffer
	code := run(ctx, []string{"roll", "--namespace=n", "--release=r", "--image=i", "--config=" + filepath.Join(dir, "roll.yaml"), "--termination-log=/nowhere"},
		&out, &messages, func(string) (*rest.Config, error) { return api.Config(), nil })
	if code != fleet.CodeInterrupted || !strings.Contains(messages.String(), "waits for the API server") || !strings.Contains(messages.String(), "partition-fleet: interrupted: ") {
		t.Errorf("%d, %q", code, messages.String())
	}
}
