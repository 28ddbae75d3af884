//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"node-partition.io/node-partition/tests/testkit"
)

// server serves the API of a cluster without a password. It reads the log of a pod that has ended
// from its node: the API server of the lab does not reach the kubelets.
func (c *rolloutCluster) server(t *testing.T) *url.URL {
	t.Helper()
	transport, err := rest.TransportFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		if err := c.log(r.Context(), w, r.PathValue("namespace"), r.PathValue("pod")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// log writes the log of a pod when that has ended.
func (c *rolloutCluster) log(ctx context.Context, w http.ResponseWriter, namespace, name string) error {
	var node string
	err := c.Eventually(ctx, name+" ends", func(ctx context.Context) (bool, string, error) {
		pod, err := c.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		node = pod.Spec.NodeName
		return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed, string(pod.Status.Phase), nil
	})
	if err != nil {
		return err
	}
	for _, f := range c.nodes {
		if f.Name == node {
			text, err := f.Run(ctx, fmt.Sprintf("cut -d ' ' -f 4- /var/log/pods/%s_%s_*/*/*.log", namespace, name))
			_, failed := fmt.Fprint(w, text)
			return errors.Join(err, failed)
		}
	}
	return fmt.Errorf("no node %q", node)
}

// kubectlIn builds kubectl into bin of a folder, and returns its path.
func kubectlIn(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "bin/kubectl")
	if err := testkit.Build("node-partition.io/node-partition/tests/e2e/kubectl", program); err != nil {
		t.Fatal(err)
	}
	return program
}

// plugin returns a function that runs kubectl node-partition as a user, and returns what it prints
// and its exit status.
func (c *rolloutCluster) plugin(t *testing.T) func(user string, args ...string) (out string, status int) {
	t.Helper()
	server, dir := c.server(t), t.TempDir()
	kubectl := kubectlIn(t, dir)
	plugin, err := filepath.Abs("../../deploy/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return func(user string, args ...string) (string, int) {
		t.Helper()
		config := filepath.Join(dir, user+".conf")
		text := fmt.Sprintf(`{"clusters": [{"name": "lab", "cluster": {"server": %q}}], "users": [{"name": "lab", "user": {"as": %q}}],
			"contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}], "current-context": "lab"}`, server, user)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"node-partition"}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "HOME="+dir, "PATH="+plugin+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("kubectl node-partition %q: %v: %s", args, err, out)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

// shown: kubectl node-partition shows a cluster whose NodePartition is current, and a node of it by
// a pod that is gone afterwards. Who may not make the pod is told which right is missing.
func (c *rolloutCluster) shown(t *testing.T) {
	t.Helper()
	const admin, nobody = "", "nobody"
	run := c.plugin(t)
	node := c.nodes[0]
	seen := func(user string, status int, line string, want ...string) {
		t.Helper()
		out, got := run(user, strings.Fields(line)...)
		t.Logf("%s: exit status %d\n%s", line, got, out)
		for _, text := range want {
			if got != status || !strings.Contains(out, text) {
				t.Errorf("%s: exit status %d, want %d and %q", line, got, status, text)
			}
		}
	}
	seen(admin, 0, "status", "kept", "PartitionsActive", node.Name, partitionName)
	seen(admin, 0, "check", fmt.Sprintf("%d of %d nodes", len(c.nodes), len(c.nodes)))
	onNode := "--node=" + node.Name
	seen(admin, 0, "status "+onNode, "● system", "system-agent")
	seen(admin, 0, "explain swap "+onNode, "# Check `swap`")
	seen(admin, 2, "check --bogus "+onNode, "--bogus")
	seen(nobody, 1, "status", `cannot list resource "nodes"`)
	seen(nobody, 1, "status --image=none "+onNode, "you may not create pods")
	c.becomes(t, "the pods of kubectl are gone", func(ctx context.Context) (string, error) {
		pods, err := c.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, p := range pods.Items {
			if p.Spec.HostPID {
				return p.Namespace + "/" + p.Name, nil
			}
		}
		return "", nil
	})
}
