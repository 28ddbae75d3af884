package kubelet

import "testing"

// kubeadm is the command line of kubeadm's unit.
func kubeadm() Command {
	return Command{
		Args: []string{"/usr/bin/kubelet", "$KUBELET_KUBECONFIG_ARGS", "$KUBELET_CONFIG_ARGS", "$KUBELET_KUBEADM_ARGS", "$KUBELET_EXTRA_ARGS"},
		Environment: []string{
			"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf",
			"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml",
		},
		Files: []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet"},
	}
}

// TestCommand: a kubelet that does not run has the flags of its unit, with variables and their
// files.
func TestCommand(t *testing.T) {
	t.Parallel()
	endpoint := func(socket string) Flags {
		return Flags{Config: "/var/lib/kubelet/config.yaml", RuntimeEndpoint: socket}
	}
	start := func(args ...string) Command { return Command{Args: append([]string{"/usr/bin/kubelet"}, args...)} }
	with := func(c Command, environment ...string) Command {
		c.Environment = environment
		return c
	}
	of := func(c Command, file string) Command {
		c.Files = append(c.Files, file)
		return c
	}
	const crio = "unix:///run/crio/crio.sock"
	for name, test := range map[string]struct {
		command Command
		files   map[string]string
		want    Flags
	}{
		"none": {Command{}, nil, Flags{}},
		"kubeadm": {kubeadm(), map[string]string{
			"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/crio/crio.sock --pod-infra-container-image=registry.k8s.io/pause:3.10"` + "\n",
		}, endpoint(crio)},
		"kubeadm, and an operator": {kubeadm(), map[string]string{
			"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/other.sock"`,
			"/etc/default/kubelet":               "# the last of two counts\n;KUBELET_EXTRA_ARGS=--config=/x\nKUBELET_EXTRA_ARGS=--v=2 --container-runtime-endpoint unix:///run/crio/crio.sock",
		}, endpoint(crio)},
		"kubeadm, without its files": {kubeadm(), nil, endpoint("")},
		"no such variable":           {start("$NONE", "${NONE}", "--config=/a"), nil, Flags{Config: "/a"}},
		"a file comes before a variable": {
			of(with(start("$A"), "A=--config=/wrong"), "/env"), map[string]string{"/env": "A='--config=/right'"}, Flags{Config: "/right"},
		},
		"several lines":           {of(start("$A"), "/env"), map[string]string{"/env": "A=--config=/a \\\n  --config-dir=/b\n"}, Flags{Config: "/a", ConfigDir: "/b"}},
		"a quote without an end":  {of(start("$A", "--config=/a"), "/env"), map[string]string{"/env": "A='--config=/b\n"}, Flags{Config: "/a"}},
		"words of a variable":     {with(start("$A"), `A='--config=/with space' --config-dir=\"1`), nil, Flags{Config: "/with space", ConfigDir: `"1`}},
		"in a word":               {with(start("--config=${ROOT}/k.yaml"), "ROOT=/srv/a"), nil, Flags{Config: "/srv/a/k.yaml"}},
		"in a word, with a space": {with(start("--config=${A}"), "A=x --config-dir=/b"), nil, Flags{Config: "x --config-dir=/b"}},
		"no braces in a word":     {with(start("--config=$A"), "A=x"), nil, Flags{Config: "$A"}},
		"the program alone":       {start(), nil, Flags{}},
	} {
		got := test.command.Flags(nodeWith(t, test.files))
		if got.Config != test.want.Config || got.ConfigDir != test.want.ConfigDir || got.RuntimeEndpoint != test.want.RuntimeEndpoint {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
