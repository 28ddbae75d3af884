package check

import (
	"context"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
)

func (c *checks) container(ctx context.Context) []state.Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	endpoint, name, version, err := c.runtime.Version(ctx)
	if err != nil {
		return saying(state.Error, "%v", err)
	}
	c.runtimeName = name
	return saying(state.OK, "%s %s at %s", name, version, endpoint)
}

const setDriver = "set cgroupDriver: systemd for the kubelet, and SystemdCgroup = true for containerd (cgroup_manager = \"systemd\" for CRI-O)"

// driver checks that the cgroup driver is systemd. A kubelet uses the driver that the runtime
// reports (since 1.34), or else that of its own flag or file.
func (c *checks) driver(ctx context.Context) []state.Finding {
	if c.runtimeName == "" {
		return nil // reported by the check runtime
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := c.runtime.Client(ctx)
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	told, err := client.CgroupDriver(ctx)
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	configured, from := c.desired.Kubelet.Kubelet.CgroupDriver, "the kubelet's configuration"
	if kubelet, err := kubelet.Running(c.options.Node.Root); err == nil && kubelet.CgroupDriver != "" {
		configured, from = kubelet.CgroupDriver, "the kubelet's --cgroup-driver"
	}
	switch {
	case told == "cgroupfs":
		return changing(state.Error, setDriver, "the runtime uses cgroupfs: its containers are in no slices of systemd")
	case told != "":
		return saying(state.OK, "systemd, reported by the runtime")
	case configured == "":
		return changing(
			state.Warning, setDriver,
			"the runtime does not report its driver, and the kubelet's configuration sets none: the default is cgroupfs",
		)
	case configured != "systemd":
		return changing(state.Error, setDriver, "%s, set by %s", configured, from)
	}
	return saying(state.OK, "systemd, set by %s; the runtime does not report its driver", from)
}

func (c *checks) served(ctx context.Context) []state.Finding {
	if err := node.Served(ctx, c.options.NRI); err != nil {
		return changing(
			state.Warning, "use a runtime that serves NRI (containerd 2.0, CRI-O 1.26), or switch it on in its configuration",
			"%v: containers are moved after they have started, and memory that they had charged stays outside", err,
		)
	}
	return saying(state.OK, "served at %s: containers are placed when they are created", c.options.NRI)
}

func (c *checks) pods(ctx context.Context) []state.Finding {
	if err := node.Served(ctx, c.options.PodsAPI); err != nil {
		return changing(state.Warning, "use kubelet 1.37, or the feature gate PodsAPI of 1.36",
			"%v: requests are taken from the runtime, and from the annotations of converted pods, and no pod is restarted to be moved", err)
	}
	return saying(state.OK, "served at %s", c.options.PodsAPI)
}
