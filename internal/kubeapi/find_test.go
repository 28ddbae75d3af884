package kubeapi

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	aKubeconfig    = "apiVersion: v1\nkind: Config\nclusters:\n- name: here\n  cluster: {server: https://10.0.0.1}\n"
	aKubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\n"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const kubeadm, many, k3s, rke2 = 0, 1, 2, 3
	for name, test := range map[string]struct {
		files map[int]string // by the place in kubeconfigs
		want  int            // -1 for none
		text  string         // in the error
	}{
		"none":                    {nil, -1, kubeconfigs[rke2]},
		"kubeadm":                 {map[int]string{kubeadm: aKubeconfig}, kubeadm, ""},
		"the first wins":          {map[int]string{kubeadm: aKubeconfig, many: aKubeconfig}, kubeadm, ""},
		"many":                    {map[int]string{many: aKubeconfig, k3s: aKubeconfig}, many, ""},
		"k3s":                     {map[int]string{k3s: aKubeconfig}, k3s, ""},
		"RKE2":                    {map[int]string{rke2: aKubeconfig}, rke2, ""},
		"JSON":                    {map[int]string{many: `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"here"}]}`}, many, ""},
		"OpenShift":               {map[int]string{kubeadm: aKubeletConfig, many: aKubeconfig}, many, ""},
		"the kubelet's own alone": {map[int]string{kubeadm: aKubeletConfig}, -1, "KubeletConfiguration"},
		"empty":                   {map[int]string{kubeadm: "", many: aKubeconfig}, many, ""},
		"no clusters":             {map[int]string{kubeadm: "apiVersion: v1\nkind: Config\n"}, -1, "without a cluster"},
		"not YAML":                {map[int]string{kubeadm: "\t{", k3s: aKubeconfig}, k3s, ""},
		"not YAML alone":          {map[int]string{kubeadm: "\t{"}, -1, kubeconfigs[kubeadm] + ": "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for place, text := range test.files {
				testkit.WriteFile(t, filepath.Join(root, kubeconfigs[place]), text)
			}
			got, err := Find(host.Root(root))
			if test.want < 0 {
				if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "--kubeconfig") {
					t.Errorf("%q, %v; want an error that has %q", got, err, test.text)
				}
				return
			}
			if err != nil || got != kubeconfigs[test.want] {
				t.Errorf("%q, %v; want %s", got, err, kubeconfigs[test.want])
			}
		})
	}
}
