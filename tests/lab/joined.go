package lab

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigPath is the path of the kubelet's kubeconfig in a node with a control plane, as on a
// kubeadm node.
const kubeconfigPath = "/etc/kubernetes/kubelet.conf"

// kubeletKubeconfigUnit is the drop-in that makes the kubelet use it.
const kubeletKubeconfigUnit = "/etc/systemd/system/kubelet.service.d/10-kubeconfig.conf"

// Kubeconfig returns the kubeconfig, for use inside the node, with which the kubelet of the node of
// that name joins. The user is system:node:NAME: under another name the kubelet would ask for a new
// certificate, again and again.
func (p *ControlPlane) Kubeconfig(node string) ([]byte, error) {
	return p.KubeconfigOf("system:node:"+node, "system:nodes")
}

// KubeconfigOf returns the kubeconfig, for use inside a node, of any user in any groups. A user
// without any rights is authenticated: its requests are forbidden, not unauthorized.
func (p *ControlPlane) KubeconfigOf(user string, groups ...string) ([]byte, error) {
	return p.kubeconfig(HostAddress, user, groups...)
}

// kubeconfig returns the kubeconfig of a user who reaches the API server at this address.
func (p *ControlPlane) kubeconfig(address, user string, groups ...string) ([]byte, error) {
	pair, err := p.authority.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{
		Server: fmt.Sprintf("https://%s:%d", address, p.Port), CertificateAuthorityData: p.authority.pem,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.certificate, ClientKeyData: pair.key}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	config.CurrentContext = "lab"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return data, nil
}

// join returns the files with which a node's kubelet joins.
func (p *ControlPlane) join(node string) ([]File, error) {
	kubeconfig, err := p.Kubeconfig(node)
	if err != nil {
		return nil, err
	}
	unit := "[Service]\nEnvironment=KUBELET_KUBECONFIG_ARGS=--kubeconfig=" + kubeconfigPath + "\n"
	return []File{
		{Path: kubeconfigPath, Mode: 0o600, Data: kubeconfig},
		{Path: kubeletKubeconfigUnit, Data: []byte(unit)},
	}, nil
}
