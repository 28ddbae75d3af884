// Package audit holds the cgroups, the kernel parameters and the processes of a node against the
// values that the kubelet, the container runtime and systemd give them.
//
// It expects what the programs that write the values compute: the kubelet (seen in 1.35.8 and
// 1.37.0, pkg/kubelet/cm and pkg/kubelet/kuberuntime), runc and crun, systemd 252 and later. The
// documents of findings explain the reasons. A value whose expectation cannot be known gives no
// finding.
//
// Nothing here reads the node: the findings depend on the snapshot alone.
package audit
