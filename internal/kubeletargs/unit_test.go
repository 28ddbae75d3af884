package kubeletargs

import (
	"path"
	"slices"
	"testing"

	"nodepartition/internal/hostfs"
)

// The unit files of kubeadm.
const (
	kubeadmUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
`
	kubeadmDropin = `# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
)

// TestOfUnit: a kubelet that does not run has the flags of its unit: with variables, their files,
// and drop-ins that replace what was before.
func TestOfUnit(t *testing.T) {
	t.Parallel()
	const dir = "/etc/systemd/system/"
	endpoint := func(socket string) Flags {
		return Flags{Config: "/var/lib/kubelet/config.yaml", RuntimeEndpoint: socket}
	}
	start := func(line string) map[string]string { return map[string]string{"1": "[Service]\nExecStart=" + line} }
	const crio = "unix:///run/crio/crio.sock"
	for name, test := range map[string]struct {
		// files are the unit's, by their names below dir, in this order, and others by their paths.
		files map[string]string
		want  Flags
	}{
		"none": {nil, Flags{}},
		"kubeadm": {map[string]string{
			"1": kubeadmUnit, "2": kubeadmDropin,
			"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/crio/crio.sock --pod-infra-container-image=registry.k8s.io/pause:3.10"` + "\n",
		}, endpoint(crio)},
		"kubeadm, and an operator": {map[string]string{
			"1": kubeadmUnit, "2": kubeadmDropin,
			"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/other.sock"`,
			"/etc/default/kubelet":               "# the last of two counts\nKUBELET_EXTRA_ARGS=--v=2 --container-runtime-endpoint unix:///run/crio/crio.sock",
		}, endpoint(crio)},
		"kubeadm, without its files": {map[string]string{"1": kubeadmUnit, "2": kubeadmDropin}, endpoint("")},
		"the drop-in of a flavour": {map[string]string{
			"1": "[Service]\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_RUNTIME_ARGS $NONE\n",
			"2": "[Unit]\nWants=crio.service\n\n[Service]\n# The command line wins.\nEnvironment=KUBELET_RUNTIME_ARGS=--container-runtime-endpoint=unix:///run/crio/crio.sock",
		}, endpoint(crio)},
		"a file comes before a variable, whichever is set last": {map[string]string{
			"1": "[Service]\nEnvironmentFile=/env\nEnvironment=A=--config=/wrong\nExecStart=kubelet $A", "/env": "A='--config=/right'",
		}, Flags{Config: "/right"}},
		"taken back": {map[string]string{
			"1": "[Service]\nEnvironment=A=--config=/a B=--config-dir=/b\nEnvironmentFile=/env\nExecStart=kubelet $A $B $C",
			"2": "[Service]\nEnvironment=\nEnvironmentFile=\nEnvironment=B=--config-dir=/c", "/env": "C=--reserved-cpus=1",
		}, Flags{ConfigDir: "/c"}},
		"several lines":       {start("/usr/bin/kubelet \\\n  # a comment between them\n  --config=/a \\\n  --config-dir=/b\nRestart=always"), Flags{Config: "/a", ConfigDir: "/b"}},
		"the end of the file": {start("/usr/bin/kubelet --config=/a \\"), Flags{Config: "/a"}},
		"quotes":              {start(`-/usr/bin/kubelet "--config=/with space" '--config-dir'="/b" --reserved-cpus=\"1`), Flags{Config: "/with space", ConfigDir: "/b", ReservedCPUs: `"1`}},
		"in a word":           {map[string]string{"1": "[Service]\nEnvironment=ROOT=/srv/a\nExecStart=kubelet --config=${ROOT}/k.yaml"}, Flags{Config: "/srv/a/k.yaml"}},
		"a variable with spaces in a word": {
			map[string]string{"1": "[Service]\nEnvironment='A=x --config-dir=/b'\nExecStart=kubelet --config=${A}"}, Flags{Config: "x --config-dir=/b"},
		},
		"of another section":  {map[string]string{"1": "[Install]\nExecStart=kubelet --config=/a"}, Flags{}},
		"the program alone":   {start("/usr/bin/kubelet"), Flags{}},
		"no value":            {start(""), Flags{}},
		"no file of the unit": {map[string]string{"1": "[Service]\nEnvironmentFile=-/none\nExecStart=kubelet --config=/a"}, Flags{Config: "/a"}},
	} {
		files, tree := []string{dir + "none"}, map[string]string{}
		for name, text := range test.files {
			if !path.IsAbs(name) {
				name = dir + name
				files = append(files, name)
			}
			tree[name] = text
		}
		slices.Sort(files)
		got := OfUnit(node(t, tree), files)
		if got.Config != test.want.Config || got.ConfigDir != test.want.ConfigDir || got.RuntimeEndpoint != test.want.RuntimeEndpoint || got.ReservedCPUs != test.want.ReservedCPUs {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// FuzzOfUnit: any text is read to its end, and what follows it counts.
func FuzzOfUnit(f *testing.F) {
	f.Add(kubeadmUnit+kubeadmDropin, `KUBELET_EXTRA_ARGS="--v=2`)
	f.Add("[Service]\nExecStart=$A ${A} $$ ${ \\", "A='\\")
	f.Fuzz(func(t *testing.T, text, values string) {
		var u unit
		u.read(text)
		u.read("\n[Service]\nExecStart=\nExecStart=kubelet --config=/x")
		u.files = nil
		if got := parse(u.args(hostfs.FS(t.TempDir()))); got.Config != "/x" {
			t.Errorf("%q: %+v", text, got)
		}
		eachLine(values, func(line string) { words(line) })
	})
}
