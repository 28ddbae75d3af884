package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nodepartition/internal/node"
	"nodepartition/tests/fakenode"
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
		files[path.Base(header.Name)] = string(data)
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

// collect returns the bundle of a node whose service has an address.
func (n *fakeNode) collect(listen string) map[string]string {
	n.t.Helper()
	o := Options{Options: n.Options(), Version: "unknown", Args: node.ServiceArgs(n.Host())}
	o.Listen = listen
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

// entries returns records of the journal, as journalctl -o json writes them.
func entries(t *testing.T, identifier string, messages ...string) string {
	t.Helper()
	var lines strings.Builder
	for _, message := range messages {
		data, err := json.Marshal(map[string]string{
			"__REALTIME_TIMESTAMP": "1795170000000000", "PRIORITY": "4", "SYSLOG_IDENTIFIER": identifier, "MESSAGE": message,
			"_CMDLINE": "x --token=" + planted("cmdline"),
		})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(data, '\n'))
	}
	return lines.String()
}

// planted returns a secret for a place. They have different forms: what is left out must not depend
// on one.
func planted(place string) string {
	return map[string]string{
		"cmdline":  "Zx81cmdlineQ",
		"header":   "Zx81headerQQ",
		"field":    "Zx81fieldQQQ",
		"token":    "eyJhbGciOiJSUzI1NiJ9.eyJaeDgxIjoxfQ.Wng4MXRva2Vu",
		"key":      "LS0tLS1CRUdJTlp4ODFrZXk=",
		"flag":     "Zx81flagQQQQ",
		"apart":    "Zx81apartQQQ",
		"env":      "Zx81envQQQQQ",
		"manifest": "Zx81manifest",
		"proxy":    "Zx81proxyQQQ",
		"journal":  "Zx81journalQ",
		"plain":    "correcthorsebattery",
		"boot":     "zx81ab.0123456789zx81ab",
		"metric":   "Zx81metricQQ",
	}[place]
}

// TestCollectSecrets: a bundle holds no secret, wherever on the node it is.
func TestCollectSecrets(t *testing.T) {
	t.Parallel()
	n := newNode(t, fakenode.Valid("kube-system")+
		"staticPodURL: https://example.com/pods?key="+planted("header")+"\nstaticPodURLHeader:\n  Authorization: [\"Bearer "+planted("header")+"\"]\n"+
		"unheardOf: "+planted("field")+"\ntlsPrivateKeyFile: /etc/"+planted("field")+"\nevictionHard: {"+planted("field")+"x: "+planted("field")+"}\n"+
		"featureGates: {Some: true}\nclusterDNS: ["+planted("field")+"]\n")
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers:\n- name: a\n  user:\n" +
		"    token: " + planted("token") + "\n    client-key-data: " + planted("key") + "\n    password: " + planted("plain") + "\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
	n.Write("/etc/kubernetes/kubelet.conf", kubeconfig)
	n.Write("/var/lib/kubelet/kubeconfig", kubeconfig)
	n.Write("/etc/kubernetes/manifests/pod.yaml", "spec: {containers: [{env: [{name: A, value: "+planted("manifest")+"}]}]}")
	n.Write("/etc/default/node-partition", "PARTITION_MONITOR_ARGS=--debug --unheard="+planted("flag")+" --move "+planted("apart")+"\nHTTPS_PROXY=http://u:"+planted("proxy")+"@p\n")
	n.Write("/run/node-partition/units/kubepods-system.slice", "[Slice]\nMemoryMax=67108864\nEnvironment=A="+planted("env"))
	n.RunKubelet("-c", "read x", "kubelet", "--config=/var/lib/kubelet/config.yaml", "--token="+planted("flag"), "--bootstrap", planted("boot"),
		"--reserved-cpus", "0", "--unheard", planted("apart"))
	n.answering("systemctl", map[string]string{
		"--property=Version": "Version=257.13-1~deb13u1",
		"--property=Id":      "Id=kubelet.service\nActiveState=active\nEnvironment=TOKEN=" + planted("env") + "\nExecStart={ argv[]=kubelet --token=" + planted("flag") + " }\nMemoryMax=infinity\nFragmentPath=/etc/" + planted("field"),
	})
	n.answering("journalctl", map[string]string{
		"partition-monitor":   entries(t, "partition-monitor", "connection to=kubelet up=true", `a step failed error="Get https://u:`+planted("proxy")+`@h/?token=`+planted("plain")+`: EOF"`),
		"partition-generator": entries(t, "partition-generator", "/var/lib/kubelet/config.yaml: unheardOf: "+planted("field")),
		"kubelet.service": entries(t, "kubelet",
			`I1122 10:00:00.000001     7 flags.go:64] FLAG: --token="`+planted("flag")+`"`,
			`E1122 10:00:00.000002     7 pod_workers.go:1] "Error syncing pod" err="env A=`+planted("env")+`" pod="kube-system/dns" token="`+planted("plain")+`"`,
			`I1122 10:00:00.000003     7 kubelet.go:1] "Using `+planted("journal")+`"`,
			"Authorization: Basic "+planted("plain"), planted("boot"), "my password is "+planted("plain")),
	})
	n.MonitorServes(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "nodepartition_info{version=\"%s\"} 1\nnodepartition_memory_available_bytes 5\n# HELP x %s\n%s 1\n", planted("metric"), planted("metric"), planted("metric"))
	})
	files := n.collect("")
	for name, text := range files {
		for _, place := range []string{
			"cmdline", "header", "field", "token", "key", "flag", "apart", "env", "manifest", "proxy", "journal", "plain", "boot", "metric",
		} {
			if strings.Contains(text, planted(place)) {
				t.Errorf("%s holds the secret of %s:\n%s", name, place, text)
			}
		}
		if strings.Contains(strings.ToLower(text), "zx81") {
			t.Errorf("%s holds a part of a secret:\n%s", name, text)
		}
	}
	// What is harmless is there.
	for name, want := range map[string][]string{
		"README.txt":          {"left out"},
		"status.json":         {`"limitBytes": 67108864`},
		"check.json":          {`"check": "configuration"`},
		"versions.json":       {"containerd v2.3.7 at", "257.13-1~deb13u1"},
		"settings.json":       {`"--debug"`, `"HTTPS_PROXY": "[left out]"`},
		"kubelet.json":        {`"memoryLimit": "64Mi"`, `"staticPodURLHeader": "[left out]"`, `"--config=/var/lib/kubelet/config.yaml"`, `"--reserved-cpus"`, `"Some": true`, "not a KubeletConfiguration"},
		"units.json":          {`"ActiveState": "active"`, `"MemoryMax": "infinity"`},
		"units.txt":           {"MemoryMax=67108864", "Environment=[left out]"},
		"cgroups.txt":         {"/kubepods.slice/kubepods-system.slice\n", "memory.max: 67108864"},
		"journal-monitor.txt": {"connection to=kubelet up=true", "a step failed error="},
		"journal-kubelet.txt": {`E1122 10:00:00.000002 pod_workers.go:1] "Error syncing pod" pod=kube-system/dns`},
		"metrics.txt":         {"nodepartition_memory_available_bytes 5"},
	} {
		for _, part := range want {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s lacks %q:\n%s", name, part, files[name])
			}
		}
	}
}

// TestCollectFaults: the bundle alone shows what is wrong with a node.
func TestCollectFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		configuration string
		plant         func(n *fakeNode)
		want          map[string][]string
	}{
		"a configuration that is refused": {
			fakenode.Broken,
			func(n *fakeNode) {
				n.answering("journalctl", map[string]string{"partition-generator": entries(n.t, "partition-generator",
					`/var/lib/kubelet/config.yaml: systemPartition.memoryLimit: "never" is not a quantity; want a quantity such as 4Gi`)})
			},
			map[string][]string{
				"check.json":            {`"grade": "error"`, "systemPartition.memoryLimit"},
				"kubelet.json":          {`"memoryLimit": "never"`},
				"journal-generator.txt": {`memoryLimit: "never" is not a quantity`},
			},
		},
		"a limit that was raised by hand": {
			fakenode.Valid("kube-system"),
			func(n *fakeNode) { n.Partition("134217728") },
			map[string][]string{
				"check.json":   {`"check": "slice"`, `"grade": "error"`, "134217728"},
				"cgroups.txt":  {"memory.max: 134217728"},
				"kubelet.json": {`"memoryLimit": "64Mi"`},
			},
		},
		"the wrong cgroup driver": {
			fakenode.Valid("kube-system"),
			func(n *fakeNode) {
				n.Serve(&fakenode.Runtime{Config: &runtime.RuntimeConfigResponse{Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: runtime.CgroupDriver_CGROUPFS}}})
			},
			map[string][]string{"check.json": {`"check": "cgroup-driver"`, "the runtime uses cgroupfs"}},
		},
		"a kernel that kills": {
			fakenode.Valid("kube-system"),
			func(n *fakeNode) {
				n.Partition("67108864")
				pod := fakenode.SystemCgroup + "/kubepods-system-burstable.slice/kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice"
				n.Write(pod+"/memory.events", "oom 0\noom_kill 3")
				n.answering("journalctl", map[string]string{"partition-monitor": entries(n.t, "partition-monitor",
					"the memory of the system partition is low and all its pods are protected: the kernel will kill at the limit; raise memoryLimit, or protect fewer with --eviction-protect available=1Mi below=2Mi",
					"the kernel has killed processes in the system partition, at its limit: eviction came too late, or had no candidate; journalctl -k names them processes=3")})
			},
			map[string][]string{
				"journal-monitor.txt": {"all its pods are protected", "the kernel has killed processes in the system partition, at its limit", "processes=3"},
				"cgroups.txt":         {"kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice", "oom_kill 3"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, fault.configuration)
			fault.plant(n)
			files := n.collect("")
			for name, parts := range fault.want {
				for _, part := range parts {
					if !strings.Contains(files[name], part) {
						t.Errorf("%s lacks %q:\n%s", name, part, files[name])
					}
				}
			}
		})
	}
}

// TestCollectNoRuntime: no runtime answers here, and the bundle says so.
func TestCollectNoRuntime(t *testing.T) {
	t.Parallel()
	files := newNode(t, fakenode.Valid("kube-system")).collect("")
	if !strings.Contains(files["errors.txt"], "versions.json: container runtime: no socket at ") {
		t.Errorf("errors.txt: %q", files["errors.txt"])
	}
	if !strings.Contains(files["status.json"], `"podsUnknown": "container runtime: no socket at `) {
		t.Errorf("status.json: %s", files["status.json"])
	}
}
