package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	kubeletHealthURL = "http://127.0.0.1:10248/healthz"
	kubeletPodsURL   = "http://127.0.0.1:10255/pods"
)

// httpClient returns a client that connects from inside the node: http://127.0.0.1:10255/pods
// reaches the node's kubelet.
func (n *Node) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return n.conn.dialThrough(ctx, network, addr)
		},
	}}
}

// Dial connects to an address of the node's own; network is "tcp" or "unix".
func (n *Node) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return n.conn.dialThrough(ctx, network, addr)
}

// Get returns the body of a URL of the node's own, http://127.0.0.1:9948/metrics for instance.
func (n *Node) Get(ctx context.Context, url string) ([]byte, error) { return n.get(ctx, n.http, url) }

func (n *Node) get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("node %s: get %s: %w", n.Name, url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return body, fmt.Errorf("node %s: get %s: %s: %s", n.Name, url, resp.Status, lastLines(string(body), 3))
	}
	return body, nil
}

// Pods returns the kubelet's pods, with their status.
func (n *Node) Pods(ctx context.Context) ([]v1.Pod, error) {
	body, err := n.Get(ctx, kubeletPodsURL)
	if err != nil {
		return nil, err
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("node %s: %s: %w", n.Name, kubeletPodsURL, err)
	}
	return list.Items, nil
}

// Pod returns the static pod with the name in its manifest, or an error that wraps errNoPod.
func (n *Node) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	pods, err := n.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Namespace == namespace && pods[i].Name == name+"-"+n.Hostname {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf(
		"node %s: %w: %s/%s: the kubelet has: %s",
		n.Name, errNoPod, namespace, name, describePods(pods),
	)
}

// errNoPod means that the kubelet does not have the pod.
var errNoPod = errors.New("no such pod")

// ApplyPod writes the manifest of a static pod and returns its path in the node. The kubelet sees
// it within a second; WaitPod waits until it runs.
func (n *Node) ApplyPod(ctx context.Context, manifest []byte) (string, error) {
	pod, err := parsePod(manifest)
	if err != nil {
		return "", fmt.Errorf("node %s: apply a pod: %w", n.Name, err)
	}
	file := manifestPath(pod.Name)
	// The kubelet may read the folder at any moment, and must not see half a file.
	hidden := path.Join(ManifestDir, "."+path.Base(file))
	if err := n.WriteFile(ctx, hidden, manifest, 0o600); err != nil {
		return "", err
	}
	_, err = n.Run(ctx, "mv "+Quote(hidden)+" "+Quote(file))
	return file, err
}

// DeletePod removes the manifest of the static pod of that name. WaitNoPod waits until it is gone.
func (n *Node) DeletePod(ctx context.Context, name string) error {
	_, err := n.Run(ctx, "rm "+Quote(manifestPath(name)))
	return err
}

// WaitPod waits until the static pod runs with all its containers ready, and returns it.
func (n *Node) WaitPod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	var pod *v1.Pod
	err := n.Eventually(
		ctx,
		fmt.Sprintf("pod %s/%s running", namespace, name),
		func(ctx context.Context) (bool, string, error) {
			var err error
			if pod, err = n.Pod(ctx, namespace, name); err != nil {
				return false, "", err
			}
			return podRuns(*pod), describePods([]v1.Pod{*pod}), nil
		},
	)
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// WaitNoPod waits until the kubelet no longer has the static pod and none of its containers runs.
// The kubelet forgets a pod when its manifest is removed, up to a grace period before its processes
// have ended.
func (n *Node) WaitNoPod(ctx context.Context, namespace, name string) error {
	return n.Eventually(
		ctx,
		fmt.Sprintf("pod %s/%s gone", namespace, name),
		func(ctx context.Context) (bool, string, error) {
			pod, err := n.Pod(ctx, namespace, name)
			if errors.Is(err, errNoPod) {
				running, err := n.runningContainers(ctx, namespace, name)
				return len(running) == 0, "running containers: " + orNone(running), err
			}
			if err != nil {
				return false, "", err
			}
			return false, describePods([]v1.Pod{*pod}), nil
		},
	)
}

// WaitReady waits until the kubelet is healthy, every pod that has a manifest runs with all its
// containers ready, and the node is ready for its control plane, if it has one.
func (n *Node) WaitReady(ctx context.Context) error {
	wanted, err := n.manifests(ctx)
	if err != nil {
		return err
	}
	return n.Eventually(ctx, "kubelet healthy and static pods running", func(ctx context.Context) (bool, string, error) {
		if _, err := n.Get(ctx, kubeletHealthURL); err != nil {
			return false, "kubelet not healthy", err
		}
		pods, err := n.Pods(ctx)
		if err != nil {
			return false, "kubelet healthy", err
		}
		seen := fmt.Sprintf("kubelet healthy, %d manifests, pods: %s", len(wanted), describePods(pods))
		running := map[string]bool{}
		for _, p := range pods {
			running[p.Namespace+"/"+p.Name] = podRuns(p)
		}
		for _, p := range wanted {
			if !running[p.Namespace+"/"+p.Name+"-"+n.Hostname] {
				return false, seen, nil
			}
		}
		if p := n.options.ControlPlane; p != nil {
			ready, node, err := p.nodeReady(ctx, n.Hostname)
			return ready, seen + "; node " + node, err
		}
		return true, seen, nil
	})
}

// manifests returns the static pods for which the node has manifests.
func (n *Node) manifests(ctx context.Context) ([]v1.Pod, error) {
	out, err := n.Run(
		ctx,
		"cd "+ManifestDir+" && for f in *; do [ -f \"$f\" ] && cat \"$f\" && printf '\\n---\\n'; done; true",
	)
	if err != nil {
		return nil, err
	}
	var pods []v1.Pod
	for _, manifest := range strings.Split(out, "\n---\n") {
		if strings.TrimSpace(manifest) == "" {
			continue
		}
		pod, err := parsePod([]byte(manifest))
		if err != nil {
			return nil, fmt.Errorf("node %s: %s: %w", n.Name, ManifestDir, err)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func parsePod(manifest []byte) (v1.Pod, error) {
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return pod, fmt.Errorf("pod manifest: %w", err)
	}
	if pod.Kind != "Pod" || pod.Name == "" {
		return pod, fmt.Errorf("pod manifest: kind %q, metadata.name %q: want kind Pod and a name", pod.Kind, pod.Name)
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	return pod, nil
}

func manifestPath(pod string) string { return path.Join(ManifestDir, pod+".yaml") }

// podRuns reports whether a pod runs with all its containers ready.
func podRuns(p v1.Pod) bool {
	if p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
		return false
	}
	for _, c := range p.Status.ContainerStatuses {
		if !c.Ready {
			return false
		}
	}
	return true
}

// describePods returns one line with the state of pods, and the reason why a container does not
// run.
func describePods(pods []v1.Pod) string {
	if len(pods) == 0 {
		return "none"
	}
	var all []string
	for _, p := range pods {
		text := fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, p.Status.Phase)
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Waiting != nil:
				text += fmt.Sprintf(" (%s waits: %s %s)", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
			case c.State.Terminated != nil:
				text += fmt.Sprintf(" (%s ended: %s, status %d)", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode)
			case !c.Ready:
				text += fmt.Sprintf(" (%s not ready)", c.Name)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
