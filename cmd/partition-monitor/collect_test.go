package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
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

// collect returns the bundle of a node.
func (n *fakeNode) collect(args ...string) map[string]string {
	n.t.Helper()
	status, stdout, stderr := n.run(append([]string{"collect", "-o", "-"}, args...)...)
	if status != exitOK {
		n.t.Fatalf("status %d: %s", status, stderr)
	}
	return unpack(n.t, []byte(stdout))
}

// answering installs a program on the node that writes a text if one of its arguments contains a
// word. It fails if its arguments contain two of the words.
func (n *fakeNode) answering(name string, texts map[string]string) {
	n.t.Helper()
	var lines strings.Builder
	lines.WriteString("found=0\n")
	for word, text := range texts {
		file := "/bin/" + name + "." + word
		n.write(file, text)
		fmt.Fprintf(&lines, "case \"$*\" in *%s*) found=$((found+1)); while read -r line; do printf '%%s\\n' \"$line\"; done < %s ;; esac\n",
			word, filepath.Join(n.root, file))
	}
	fmt.Fprintf(&lines, "if [ $found -gt 1 ]; then echo \"%s $*: more than one answer\" >&2; exit 1; fi", name)
	n.script("/bin/"+name, lines.String())
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

// process runs a process with a command line until the test ends, and returns its number.
func process(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args = args
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd.Process.Pid
}

// TestCollectSecrets: a bundle holds no secret, wherever on the node it is.
func TestCollectSecrets(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system")+
		"staticPodURL: https://example.com/pods?key="+planted("header")+"\nstaticPodURLHeader:\n  Authorization: [\"Bearer "+planted("header")+"\"]\n"+
		"unheardOf: "+planted("field")+"\ntlsPrivateKeyFile: /etc/"+planted("field")+"\nevictionHard: {"+planted("field")+"x: "+planted("field")+"}\n"+
		"featureGates: {Some: true}\nclusterDNS: ["+planted("field")+"]\n")
	n.partition("67108864")
	n.serve(&fakeRuntime{})
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers:\n- name: a\n  user:\n" +
		"    token: " + planted("token") + "\n    client-key-data: " + planted("key") + "\n    password: " + planted("plain") + "\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
	n.write("/etc/kubernetes/kubelet.conf", kubeconfig)
	n.write("/var/lib/kubelet/kubeconfig", kubeconfig)
	n.write("/etc/kubernetes/manifests/pod.yaml", "spec: {containers: [{env: [{name: A, value: "+planted("manifest")+"}]}]}")
	n.write("/etc/default/node-partition", "PARTITION_MONITOR_ARGS=--debug --unheard="+planted("flag")+" --move "+planted("apart")+"\nHTTPS_PROXY=http://u:"+planted("proxy")+"@p\n")
	n.write("/run/node-partition/units/kubepods-system.slice", "[Slice]\nMemoryMax=67108864\nEnvironment=A="+planted("env"))
	pid := process(t, "kubelet", "-c", "read x", "kubelet", "--config=/var/lib/kubelet/config.yaml", "--token="+planted("flag"), "--bootstrap", planted("boot"),
		"--reserved-cpus", "0", "--unheard", planted("apart"))
	n.write("/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs", fmt.Sprint(pid))
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
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "systempartition_info{version=\"%s\"} 1\nsystempartition_memory_available_bytes 5\n# HELP x %s\n%s 1\n", planted("metric"), planted("metric"), planted("metric"))
	}))
	t.Cleanup(service.Close)
	files := n.collect("--listen=" + strings.TrimPrefix(service.URL, "http://"))
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
		"metrics.txt":         {"systempartition_memory_available_bytes 5"},
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
			broken,
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
			valid("kube-system"),
			func(n *fakeNode) { n.partition("134217728") },
			map[string][]string{
				"check.json":   {`"check": "slice"`, `"grade": "error"`, "134217728"},
				"cgroups.txt":  {"memory.max: 134217728"},
				"kubelet.json": {`"memoryLimit": "64Mi"`},
			},
		},
		"the wrong cgroup driver": {
			valid("kube-system"),
			func(n *fakeNode) {
				n.serve(&fakeRuntime{config: &runtime.RuntimeConfigResponse{Linux: &runtime.LinuxRuntimeConfiguration{CgroupDriver: runtime.CgroupDriver_CGROUPFS}}})
			},
			map[string][]string{"check.json": {`"check": "cgroup-driver"`, "the runtime uses cgroupfs"}},
		},
		"a kernel that kills": {
			valid("kube-system"),
			func(n *fakeNode) {
				n.partition("67108864")
				pod := systemCgroup + "/kubepods-system-burstable.slice/kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice"
				n.write(pod+"/memory.events", "oom 0\noom_kill 3")
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
			files := n.collect("--listen=")
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

// TestCollectFile: the bundle is a file that its owner alone may read. A file that exists is not
// overwritten.
func TestCollectFile(t *testing.T) {
	t.Parallel()
	n := newNode(t, valid("kube-system"))
	name := filepath.Join(n.root, "bundle.tar.gz")
	status, stdout, stderr := n.run("collect", "-o", name, "--listen=")
	if status != exitOK || stdout != name+"\n" || stderr != "" {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the mode 600", info, err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// No runtime answers here, and the bundle says so.
	if files := unpack(t, data); !strings.Contains(files["errors.txt"], "status.json: ") || !strings.Contains(files["errors.txt"], "runtime") {
		t.Errorf("errors.txt: %q", files["errors.txt"])
	}
	n.oneProblem([]string{"file exists"}, "collect", "-o", name)
}
