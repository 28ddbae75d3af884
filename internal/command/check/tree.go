package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// tree is what the last group of checks is applied to: the cgroups of slices and containers, and
// what the kubelet, systemd and the configuration say about them. It is read at once.
type tree struct {
	// kubelet has the settings of the running kubelet, or of the files without one.
	kubelet node.KubeletSettings
	// partitions and names are those of the configuration, and members the rules of who belongs.
	partitions []config.Partition
	names      []partition.Name
	members    partition.Rules
	// cgroups holds the files of cgroups by their path below the mount and their name. It has the
	// slices, and the scopes of containers below kubepods.slice. A file whose controller is off is
	// missing.
	cgroups map[string]map[string]string
	// scopes holds the scopes of containers by the container's ID.
	scopes map[string]string
	// units holds properties of slices by their names. unasked is the error of asking systemd.
	units   map[string]map[string]string
	unasked error
	// pods lists the kubelet's pods. podsUnknown says why they are not known.
	pods        []*v1.Pod
	podsUnknown error

	// found holds the paths with a finding: a path has one, of the first check. findings are those of
	// the check that runs.
	found    map[string]bool
	findings []state.Finding
}

// compared returns the look of a check of the tree. It reads the tree a second time if something
// is found, and a finding counts if both have it: the kubelet may have started a pod in between.
// why returns the error that keeps a rule from being applied; nil for none.
func compared(why func(*tree) error, rule func(*tree)) func(*checks, context.Context) []state.Finding {
	return func(c *checks, ctx context.Context) []state.Finding {
		var found []state.Finding
		for i := range c.trees {
			if c.trees[i] == nil && c.treeErr == nil {
				c.trees[i], c.treeErr = c.readTree(ctx)
			}
			if c.treeErr != nil {
				return saying(state.Warning, "%v", c.treeErr)
			}
			t := c.trees[i]
			if err := why(t); err != nil {
				return saying(state.OK, "not compared: %v", err)
			}
			t.findings = nil
			rule(t)
			if i > 0 {
				found = slices.DeleteFunc(found, func(f state.Finding) bool {
					return !slices.ContainsFunc(t.findings, func(again state.Finding) bool { return again.Found == f.Found })
				})
			} else {
				found = t.findings
			}
			if len(found) == 0 {
				return saying(state.OK, "as the kubelet, systemd and the configuration set it")
			}
		}
		slices.SortFunc(found, func(a, b state.Finding) int { return strings.Compare(a.Found, b.Found) })
		return found
	}
}

// The reasons why a check does not apply.
func always(*tree) error { return nil }

func ofPods(t *tree) error { return t.podsUnknown }

func ofSystemd(t *tree) error { return t.unasked }

// add adds a finding, unless its path has one already.
func (t *tree) add(where, value, expected, change, why string, args ...any) {
	if value == "" {
		value = "empty"
	}
	if !t.found[where] {
		t.found[where] = true
		t.findings = append(t.findings, changing(state.Warning, change, "%s is %s; expected %s: %s",
			where, value, expected, fmt.Sprintf(why, args...))...)
	}
}

// fileOf returns the path of a cgroup's file.
func fileOf(cgroup, name string) string { return path.Join(partition.CgroupMount, cgroup, name) }

const (
	// maxDepth bounds the depth of slices. systemd allows any.
	maxDepth = 8
	// unitsAtOnce is the number of units in one call of systemctl.
	unitsAtOnce = 200
	// treeProperties lists the properties that checks of the tree are about.
	treeProperties = "Id,ActiveState,MemoryMax,MemoryHigh,MemorySwapMax,CPUWeight,TasksMax"
)

// treeFiles lists the files of a cgroup that checks are about.
var treeFiles = []string{cpuWeight, cpuMax, memoryMax, memoryHigh, swapMax, pidsMax, cpusetCPUs, effectiveCPUs}

// readTree reads the tree of a node that has pods. The cgroups, which change with the pods, are
// read after them.
func (c *checks) readTree(ctx context.Context) (*tree, error) {
	n := c.options.Node
	if err := c.cgroups.Exists(kubepods); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: the kubelet has not started yet, or does not use the cgroup driver systemd", c.cgroups.Path(kubepods))
	} else if err != nil {
		return nil, err
	}
	t := &tree{
		partitions: c.desired.Partitions, names: c.desired.Names, members: c.desired.Members(),
		cgroups: map[string]map[string]string{}, scopes: map[string]string{}, units: map[string]map[string]string{},
		found: map[string]bool{},
	}
	var err error
	if t.kubelet, err = c.settings(); err != nil {
		return nil, err
	}
	t.pods, t.podsUnknown = c.kubeletsPods(ctx)
	if err := t.walk(c.cgroups, "", 0); err != nil {
		return nil, err
	}
	t.readUnits(ctx, n)
	return t, nil
}

// kubeletsPods asks the kubelet for its pods. One that does not answer is waited for once: the
// second tree has the error of the first.
func (c *checks) kubeletsPods(ctx context.Context) ([]*v1.Pod, error) {
	if err := c.options.Node.Answers(); err != nil {
		return nil, err
	}
	if !node.IsSocket(c.options.PodsAPI) {
		return nil, errors.New("the kubelet does not serve its Pods API")
	}
	if first := c.trees[0]; first != nil && first.podsUnknown != nil {
		return nil, first.podsUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return kubelet.ListPods(ctx, c.options.PodsAPI)
}

// walk reads the slices and the scopes of containers below a cgroup, which is depth slices deep. It
// leaves out what is below the slice of users, and the services.
func (t *tree) walk(cgroups cgroups.FS, cgroup string, depth int) error {
	children, err := cgroups.Children(cgroup)
	if err != nil {
		return err
	}
	for _, name := range children {
		below := path.Join(cgroup, name)
		id, slice := partition.ContainerID(name), strings.HasSuffix(name, ".slice")
		if !slice && (id == "" || !within(below, kubepods)) {
			continue
		}
		files := map[string]string{}
		for _, file := range treeFiles {
			text, err := cgroups.ReadFile(below, file)
			switch {
			case err == nil:
				files[file] = strings.TrimSpace(string(text))
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV): // the cgroup may be gone
				return err
			}
		}
		t.cgroups[below] = files
		if !slice {
			t.scopes[id] = below
		} else if name != "user.slice" && depth < maxDepth {
			if err := t.walk(cgroups, below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// readUnits reads the properties of the slices.
func (t *tree) readUnits(ctx context.Context, n host.Node) {
	if t.unasked = n.Answers(); t.unasked != nil {
		return
	}
	var units []string
	for _, cgroup := range slices.Sorted(maps.Keys(t.cgroups)) {
		if strings.HasSuffix(cgroup, ".slice") {
			units = append(units, path.Base(cgroup))
		}
	}
	for part := range slices.Chunk(units, unitsAtOnce) {
		all, err := n.Systemd.Show(ctx, treeProperties, part...)
		if err != nil {
			t.unasked = err
			return
		}
		for _, unit := range all {
			t.units[unit["Id"]] = unit
		}
	}
}
