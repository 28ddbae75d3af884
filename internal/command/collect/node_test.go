package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/tests/fakenode"
)

// unpack returns the files of a bundle by their names.
func unpack(t *testing.T, bundle []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode != 0o600 || !strings.HasPrefix(header.Name, "node-partition-") {
			t.Errorf("%s has the mode %o", header.Name, header.Mode)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(data)
	}
}

// fakeNode is a node below a folder.
type fakeNode struct {
	*fakenode.Node
	t *testing.T
}

func newNode(t *testing.T, configuration string) *fakeNode {
	t.Helper()
	return &fakeNode{fakenode.New(t, configuration), t}
}

// collect returns the bundle of a node whose service has no address.
func (n *fakeNode) collect() map[string]string {
	n.t.Helper()
	o := Options{Options: n.Options(), Version: "unknown", Args: node.ServiceArgs(n.Host())}
	o.Listen = ""
	var bundle bytes.Buffer
	if err := Write(n.t.Context(), &bundle, o); err != nil {
		n.t.Fatal(err)
	}
	return unpack(n.t, bundle.Bytes())
}

// answering installs a program on the node that writes a text if one of its arguments contains a
// word. It fails if its arguments contain two of the words.
func (n *fakeNode) answering(name string, texts map[string]string) {
	n.t.Helper()
	var lines strings.Builder
	lines.WriteString("found=0\n")
	for word, text := range texts {
		file := "/bin/" + name + "." + word
		n.Write(file, text)
		fmt.Fprintf(&lines, "case \"$*\" in *%s*) found=$((found+1)); while read -r line; do printf '%%s\\n' \"$line\"; done < %s ;; esac\n",
			word, filepath.Join(n.Root, file))
	}
	fmt.Fprintf(&lines, "if [ $found -gt 1 ]; then echo \"%s $*: more than one answer\" >&2; exit 1; fi", name)
	n.Script("/bin/"+name, lines.String())
}

// TestCollect: a bundle has what our programs say and our files, and no secret of another file.
func TestCollect(t *testing.T) {
	t.Parallel()
	const secret = "Zx81secret"
	n := newNode(t, fakenode.Valid("kube-system")+"staticPodURLHeader: {Authorization: [Bearer "+secret+"]}\n")
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	for _, name := range []string{
		"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig", "/etc/kubernetes/manifests/pod.yaml", fakenode.SystemCgroup + "/cgroup.procs",
	} {
		n.Write(name, secret)
	}
	n.Write("/etc/default/node-partition", "PARTITION_MONITOR_ARGS=--debug\nHTTPS_PROXY=http://u:"+secret+"@p\n")
	n.Write("/etc/kubernetes/node-partition.yaml", "systemPartition: {memoryLimit: 64Mi, namespaces: [kube-system]}\n")
	n.Write("/run/node-partition/units/kubepods-system.slice", "[Slice]\nMemoryMax=67108864\n")
	n.RunKubelet("--config=/var/lib/kubelet/config.yaml", "--token="+secret)
	n.answering("systemctl", map[string]string{"--property=Id": "Id=partition-monitor.service\nActiveState=active"})
	n.answering("journalctl", map[string]string{
		"partition-monitor": "connection to=kubelet up=true", "partition-generator": "the partition is configured",
	})
	n.MonitorServes(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "nodepartition_memory_available_bytes 5")
	})
	const killed = fakenode.SystemCgroup + "/kubepods-system-burstable.slice/memory.events"
	n.Write(killed, "oom 0\noom_kill 3")
	files := n.collect()
	for name, text := range files {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds a secret:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{
		"README.txt":                         "read it before you\nsend it",
		"status.json":                        `"limitBytes": 67108864`,
		"check.json":                         `"check": "configuration"`,
		"units.txt":                          "ActiveState=active",
		"journal-monitor.txt":                "connection to=kubelet up=true",
		"journal-generator.txt":              "the partition is configured",
		"metrics.txt":                        "nodepartition_memory_available_bytes 5",
		"etc/default/node-partition":         "PARTITION_MONITOR_ARGS=--debug\n",
		"etc/kubernetes/node-partition.yaml": "memoryLimit: 64Mi",
		"run/node-partition/units/kubepods-system.slice": "MemoryMax=67108864",
		fakenode.SystemCgroup[1:] + "/memory.max":        "67108864",
		killed[1:]: "oom_kill 3",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
}

// TestCollectNoRuntime: no runtime answers here, and the bundle says so.
func TestCollectNoRuntime(t *testing.T) {
	t.Parallel()
	files := newNode(t, fakenode.Valid("kube-system")).collect()
	if !strings.Contains(files["errors.txt"], "metrics.txt: ") {
		t.Errorf("errors.txt: %q", files["errors.txt"])
	}
	if !strings.Contains(files["status.json"], `"podsUnknown": "container runtime: no socket at `) {
		t.Errorf("status.json: %s", files["status.json"])
	}
}
