package recorder

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// services lists the services of kubelets and of container runtimes, as pkg/slices has them, and
// cri-docker.
var services = []string{
	"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service",
	"containerd.service", "crio.service", "docker.service", "cri-docker.service",
}

const (
	// discoverInterval is the time between two searches for cgroups.
	discoverInterval = 10 * time.Minute
	// maxDepth bounds the nesting of slices that are searched for services.
	maxDepth = 3
	// suffix of slices.
	suffix = ".slice"
)

// outside returns the usage of the cgroups outside of kubepods.slice.
func (r *Recorder) outside(now time.Time, took time.Duration) []samples.Group {
	if now.Sub(r.discoveredAt).Abs() >= discoverInterval {
		if err := r.discover(); err != nil {
			r.Warn(err)
		}
		r.readNode()
		r.discoveredAt = now
	}
	var groups []samples.Group
	for _, g := range r.groups {
		rates, err := r.rates(g.Name, took)
		if errors.Is(err, fs.ErrNotExist) {
			r.discoveredAt = time.Time{} // it was stopped: search with the next sample
			continue
		}
		if err != nil {
			r.Warn(err)
			continue
		}
		g.WorkingSetBytes, g.MilliCPU = rates.workingSet, rates.milliCPU
		groups = append(groups, g)
	}
	return groups
}

// discover lists the cgroups at the top, and the services of the kubelet and the runtime below
// them.
func (r *Recorder) discover() error {
	top, err := r.Cgroups.Children(".")
	if err != nil {
		return err
	}
	r.groups = nil
	for _, name := range top {
		if name != unitname.Default.Slice() {
			r.groups = append(r.groups, samples.Group{Name: name})
		}
	}
	for _, g := range slices.Clone(r.groups) {
		if strings.HasSuffix(g.Name, suffix) {
			if err := r.findServices(g.Name, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Recorder) findServices(slice string, depth int) error {
	children, err := r.Cgroups.Children(slice)
	if err != nil {
		return err
	}
	for _, name := range children {
		switch below := path.Join(slice, name); {
		case slices.Contains(services, name):
			r.groups = append(r.groups, samples.Group{Name: below, Kube: true})
		case strings.HasSuffix(name, suffix) && depth < maxDepth:
			if err := r.findServices(below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
