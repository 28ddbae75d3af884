package podmove

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// find locates a container that has no scope of its name in its pod's slices: it runs with the
// cgroupfs driver, in a virtual machine, or was moved by another program.
func (g *Gatherer) find(ctx context.Context, pod *Pod, c *Container) {
	cgroup, ok := g.whereIs(ctx, c.ID)
	if !ok {
		return
	}
	c.Slice = cgroup
	for _, of := range append([]PodCgroup{pod.DefaultCgroup}, pod.Partitions...) {
		if unit, ok := within(cgroup, of.Slice); ok {
			c.Slice, c.Unit = of.Slice, unit
		}
	}
	//guard: the unit of a virtual machine is not moved for a container in it
	c.Foreign = partition.ContainerID(c.Unit) != c.ID
}

// within returns the unit of a slice that a cgroup is in. It is a unit of another name than the
// container's, or one that was just created.
func within(cgroup, slice string) (unit string, ok bool) {
	below, ok := strings.CutPrefix(cgroup, "/"+partition.CgroupPath(slice)+"/")
	unit, _, _ = strings.Cut(below, "/")
	return unit, ok
}

// whereIs returns the cgroup of a running container, or Nowhere. It returns false if the container
// has ended meanwhile, or if its cgroup cannot be read now.
func (g *Gatherer) whereIs(ctx context.Context, id string) (cgroup string, ok bool) {
	if known, ok := g.elsewhere[id]; ok {
		return known, true
	}
	status, err := g.Runtime.Status(ctx, id)
	if err != nil || !status.Running {
		return "", false // if the runtime is away, its lists have failed already
	}
	found := nowhere
	if status.PID != 0 {
		if found, err = g.cgroupOf(status.PID); err != nil {
			return "", false
		}
	}
	if g.elsewhere == nil {
		g.elsewhere = map[string]string{}
	}
	g.elsewhere[id] = found
	return found, true
}

// errNoCgroup means that /proc/PID/cgroup has no line of cgroup v2.
var errNoCgroup = errors.New("no line of cgroup v2")

// cgroupOf reads the cgroup of a process: "/kubepods/burstable/pod1/one".
func (g *Gatherer) cgroupOf(pid int) (string, error) {
	path := filepath.Join(cmp.Or(g.Proc, "/proc"), strconv.Itoa(pid), "cgroup")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if cgroup := cgroups.OfProcess(string(text)); cgroup != "" {
		return cgroup, nil
	}
	return "", errNoCgroup
}
