package lab

import (
	"context"
	"fmt"
	"testing"
)

// Cluster is a control plane with several nodes. Unlike on a ControlPlane alone, pods have service
// accounts, and reach the API server at the address of the service kubernetes. The scheduler and
// clusterControllers run.
type Cluster struct {
	*ControlPlane
	tb testing.TB
}

// clusterControllers returns what Deployments, quotas, service accounts and nodes that are off
// need.
func clusterControllers() []string {
	return []string{
		"deployment-controller", "garbage-collector-controller", "node-lifecycle-controller", "replicaset-controller",
		"resourcequota-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller",
	}
}

// ClusterForTest starts the control plane of a cluster, which is stopped when the test ends. No
// other test has a machine meanwhile. Join adds the nodes.
func ClusterForTest(tb testing.TB) *Cluster {
	tb.Helper()
	ctx := tb.Context()
	c, err := defaultCache()
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	release, err := c.takeAllPlaces(ctx, tb.Name())
	if err != nil {
		tb.Fatalf("lab: %v", err)
	}
	tb.Cleanup(release)
	p, err := startControlPlane(ctx, controlPlanePrograms(), nil, func(line string) { tb.Log("lab: " + line) })
	p = controlPlaneForTest(tb, p, err)
	if err := p.StartScheduler(ctx); err != nil {
		tb.Fatalf("lab: %v", err)
	}
	if err := p.StartControllers(ctx, clusterControllers()...); err != nil {
		tb.Fatalf("lab: %v", err)
	}
	return &Cluster{ControlPlane: p, tb: tb}
}

// Join boots a node of this name, which joins the cluster, and is stopped when the test ends. The
// places of the host count for the whole cluster: see ClusterForTest.
func (c *Cluster) Join(o Options) *Node {
	c.tb.Helper()
	o.ControlPlane = c.ControlPlane
	o.Files = mergeFiles(serviceFiles(c.Port), o.Files)
	o.Progress = func(line string) { c.tb.Log("lab: " + line) }
	return c.cache.nodeForTest(c.tb, o, Start, func() {})
}

// Eventually waits until cond holds, as Node.Eventually does.
func (c *Cluster) Eventually(
	ctx context.Context, what string, cond func(context.Context) (ok bool, seen string, err error),
) error {
	return waitFor(ctx, what, pollInterval, cond)
}

// serviceFiles returns what a node has instead of kube-proxy: systemd-socket-proxyd listens at the
// address of the service kubernetes. Pods find it behind their gateway, which is the node.
func serviceFiles(port int) []File {
	return []File{
		{Path: "/etc/systemd/network/20-lab-service.network", Data: []byte(
			"[Match]\nName=lo\n\n[Network]\nKeepConfiguration=yes\nAddress=" + serviceAddress + "/32\n")},
		{Path: "/etc/systemd/system/lab-service.socket", Data: []byte(
			"[Socket]\nListenStream=" + serviceAddress + ":443\nFreeBind=yes\n")},
		{Path: "/etc/systemd/system/sockets.target.wants/lab-service.socket", Link: "/etc/systemd/system/lab-service.socket"},
		{Path: "/etc/systemd/system/lab-service.service", Data: fmt.Appendf(nil,
			"[Service]\nExecStart=/usr/lib/systemd/systemd-socket-proxyd %s:%d\n", HostAddress, port)},
	}
}
