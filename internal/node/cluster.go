package node

import (
	"os"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubelet"
)

// OpenCluster returns a client with the kubeconfig of the flag, and the path of that file. With
// auto it is the kubelet's on n. It returns host.ErrNotQueried for another node: its kubeconfig may
// name a program, which would run here.
func OpenCluster(n host.Node, kubeconfig string) (*kubeapi.Client, string, error) {
	//guard: the kubeconfig of another node is not opened
	if err := n.Answers(); err != nil {
		return nil, "", err
	}
	if kubeconfig == KubeconfigAuto {
		found, err := kubeapi.Find(n.Root)
		if err != nil {
			return nil, "", err
		}
		kubeconfig = n.Path(found)
	}
	client, err := kubeapi.New(kubeconfig)
	return client, kubeconfig, err
}

// NameInCluster returns the name of the node n in the cluster: from the certificate of the
// kubeconfig, or the kubelet's --hostname-override, or the name of the machine in lower case, as
// the kubelet does (GetHostname, pkg/util/node, v1.37.0).
func NameInCluster(n host.Node, client *kubeapi.Client) string {
	if name := client.Node(); name != "" {
		return name
	}
	name := Hostname()
	if process, err := kubelet.Running(n.Root); err == nil && process.Hostname != "" {
		name = process.Hostname
	}
	return strings.ToLower(strings.TrimSpace(name))
}

// Hostname returns the host for our events, empty if it cannot be read. The kubelet's name for the
// node may differ. It is in the pod's spec.
func Hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
