package kubeapi

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"node-partition.io/node-partition/internal/host"
)

// kubeconfigs lists the paths of kubelets' kubeconfigs, in the order in which they are tried.
var kubeconfigs = []string{
	"/etc/kubernetes/kubelet.conf",                   // kubeadm; on OpenShift a KubeletConfiguration
	"/var/lib/kubelet/kubeconfig",                    // OpenShift, Amazon EKS, Google GKE, Azure AKS
	"/var/lib/rancher/k3s/agent/kubelet.kubeconfig",  // k3s
	"/var/lib/rancher/rke2/agent/kubelet.kubeconfig", // RKE2
}

// Places returns the paths that Find tries.
func Places() []string { return slices.Clone(kubeconfigs) }

// maxKubeconfig far exceeds the size of a kubeconfig, certificates included.
const maxKubeconfig = 1 << 20

// Find returns the path of the kubelet's kubeconfig on the node, and an fs.ErrNotExist if there is
// none. A kubelet that runs static pods alone has none, and one that has not joined yet has none
// yet.
func Find(root host.Root) (string, error) {
	var unfit []string
	for _, path := range kubeconfigs {
		err := checkKubeconfig(root, path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			unfit = append(unfit, err.Error())
		}
	}
	text := "none at " + strings.Join(kubeconfigs, ", ")
	if len(unfit) > 0 {
		text += " (" + strings.Join(unfit, "; ") + ")"
	}
	return "", fmt.Errorf("kubeconfig of the kubelet: %s: %w: has the node joined a cluster? Name it with --kubeconfig",
		text, fs.ErrNotExist)
}

// checkKubeconfig returns nil for a kubeconfig.
func checkKubeconfig(root host.Root, path string) error {
	data, err := root.ReadFile(path, maxKubeconfig)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return fmt.Errorf("%s: is no kubeconfig: %w", path, err)
	}
	if len(config.Clusters) == 0 {
		return fmt.Errorf("%s: is a kubeconfig without a cluster", path)
	}
	return nil
}
