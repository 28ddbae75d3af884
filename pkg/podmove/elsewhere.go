package podmove

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nodepartition/internal/unitname"
)

// find looks for a container that is in no scope of its pod's slices that has its name: with the cgroupfs
// driver, in a virtual machine, or where somebody else has put it.
func (g *Gatherer) find(ctx context.Context, pod *Pod, c *Container) {
	cgroup, ok := g.whereIs(ctx, c.ID)
	if !ok {
		return
	}
	for _, slice := range []PodCgroup{pod.Home, pod.Guest} {
		// In a unit of another name, or in one that was made a moment ago.
		if below, ok := strings.CutPrefix(cgroup, "/"+unitname.CgroupPath(slice.Slice)+"/"); ok {
			c.Slice = slice.Slice
			c.Unit, _, _ = strings.Cut(below, "/")
			return
		}
	}
	c.Slice, c.Foreign = cgroup, true
}

// whereIs tells the cgroup of a running container, or Nowhere. It reports false where the container has
// ended meanwhile, and where that cannot be told just now.
func (g *Gatherer) whereIs(ctx context.Context, id string) (cgroup string, ok bool) {
	if known, ok := g.elsewhere[id]; ok {
		return known, true
	}
	pid, running, err := g.Runtime.Process(ctx, id)
	if err != nil || !running {
		return "", false // the lists of the runtime, which are asked first, tell when it is away
	}
	found := Nowhere
	if pid != 0 {
		if found, err = g.cgroupOf(pid); err != nil {
			return "", false
		}
	}
	if g.elsewhere == nil {
		g.elsewhere = map[string]string{}
	}
	g.elsewhere[id] = found
	return found, true
}

// idleCPUs are those that a container was given and none of which its partition has: the static CPU manager
// gives whole CPUs to a v1.PodQOSGuaranteed container alone, and knows of no partition.
func (g *Gatherer) idleCPUs(scope string) string {
	given, effective, err := g.Cgroups.CPUs(scope)
	if err != nil || given.Intersection(effective).Size() > 0 {
		return "" // gone by now, or without the controller: nobody limits its CPUs
	}
	return given.String()
}

// errNoCgroup says that /proc/PID/cgroup has no line of cgroup v2.
var errNoCgroup = errors.New("no line of cgroup v2")

// cgroupOf reads the cgroup of a process: "0::/kubepods/burstable/pod1/one" (cgroups(7)).
func (g *Gatherer) cgroupOf(pid int) (string, error) {
	path := filepath.Join(cmp.Or(g.Proc, "/proc"), strconv.Itoa(pid), "cgroup")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if cgroup, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return cgroup, nil
		}
	}
	return "", errNoCgroup
}
