package config

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

const (
	// Gate is the kubelet's own feature gate for KEP-5894. With the gate on, a kubelet makes the
	// slices itself, under the same names.
	Gate = "NodeSystemPartition"
	// Documentation is the URL that systemctl status shows for our units. It is not a man: URL,
	// because systemd-analyze verify complains of one if the manual page is not installed (252 and
	// 257).
	Documentation = "https://kep.k8s.io/5894"
	// StateDir keeps the state of both programs until the next boot. The path is below the root.
	StateDir = "/run/node-partition"
)

// Config holds the settings from the configuration and from the kernel command line.
type Config struct {
	// Partitions lists the partitions to make: the system partition first, and the others by name. It
	// is empty if the configuration has no section, or switches all off.
	Partitions []Partition
	// Names lists the names of partitions that the node may have by the configuration: the system
	// partition, whose cgroup may still exist, and the others of Partitions.
	Names []partition.Name
	// Workloads lists the workload types, by name: the partitions beside the system partition, and the
	// types whose pods are members of that.
	Workloads []partition.Workload
	// Reserved holds the slices that the kubelet expects, with and without a partition. It is also set
	// if Load returns an error: the kubelet does not start without them.
	Reserved Reserved
	// Services holds the settings for the services of the kubelet and of the runtime. They apply with
	// and without a partition.
	Services Services
	// HostCPUs holds the CPUs of system.slice, user.slice and init.scope; empty means no restriction.
	HostCPUs cpuset.CPUSet
	// Off means that the kernel command line switches the partition off. A command line that cannot be
	// read counts as off and comes with an error. Reserved is set all the same: without its slices the
	// kubelet would not start on the very node that somebody tries to rescue.
	Off bool
	// ManagedByKubelet is a message for the operator, set if the kubelet makes the partition itself.
	ManagedByKubelet string
	// KubeletsFile is a message for the operator, set if the section is in the kubelet's own
	// configuration. It gives the reasons to move the section.
	KubeletsFile string
	// Warnings lists remarks on a configuration that is valid all the same. Each says what happens
	// next.
	Warnings []string
	// Kubelet is the configuration that holds the section. It is never nil. If Off is set, only the
	// kubelet's own settings are in it.
	Kubelet *kubeletconfig.Merged

	sections sections
}

// Partition returns the partition of that name, nil if none is to be made.
func (c *Config) Partition(name partition.Name) *Partition {
	for i := range c.Partitions {
		if c.Partitions[i].Name == name {
			return &c.Partitions[i]
		}
	}
	return nil
}

// System returns the system partition of KEP-5894, nil if it is not to be made.
func (c *Config) System() *Partition { return c.Partition(partition.System) }

// IsKubelets reports whether the kubelet makes the partition itself. Then nothing in it is ours:
// its slices are not to be stopped, nor its pods moved.
func (c *Config) IsKubelets(p partition.Name) bool {
	return p == partition.System && c.ManagedByKubelet != ""
}

// AsksOthers reports whether the files ask for a partition beside the system partition, even if
// they are not valid.
func (c *Config) AsksOthers() bool {
	var none problems
	return len(decodeWorkloads(c.Kubelet, &none)) > 0 || none.err() != nil
}

// LeaveToKubelet removes the system partition, which the kubelet makes itself, and keeps why.
func (c *Config) LeaveToKubelet(why string) {
	c.ManagedByKubelet = why
	c.Partitions = slices.DeleteFunc(c.Partitions, func(p Partition) bool { return p.Name == partition.System })
	c.Workloads = slices.DeleteFunc(c.Workloads, func(w partition.Workload) bool {
		return w.Partition == partition.System
	})
}

// Members returns the rules of who belongs to which partition.
func (c *Config) Members() partition.Rules {
	var rules partition.Rules
	for i := range c.Partitions {
		rules.Add(c.Partitions[i].Name, c.Partitions[i].Namespaces...)
	}
	return rules.With(c.Workloads)
}

// Load reads the configuration of the node at root, "/" except in tests. If it returns an error,
// nothing of the configuration is applied but Reserved: Partitions is empty, and the error joins
// one error for each problem in the section and in the settings for services and of the partition.
func Load(root string) (*Config, error) { return load(host.Root(root), nil) }

// LoadWith is Load with a document in place of kubeletconfig.OverridePath. Messages call the
// document name. It validates a section before the section is in force.
func LoadWith(root, name string, data []byte) (*Config, error) {
	return load(host.Root(root), &kubeletconfig.Candidate{Name: name, Data: data})
}

func load(root host.Root, candidate *kubeletconfig.Candidate) (*Config, error) {
	c := &Config{}
	var offErr, err error
	defer c.nameAll()
	c.Off, offErr = SwitchedOff(root)
	c.Kubelet, err = kubeletconfig.LoadWith(root, candidate)
	if c.Off {
		// Reserved slices and nothing else, and no error: with the off switch no broken file is in the
		// way, and nothing is awaited.
		_ = c.reserve(root)
		c.Kubelet = c.Kubelet.WithoutSections()
		return c, offErr
	}
	c.Warnings = slices.Concat(c.Kubelet.Warnings, strangers(c.Kubelet))
	if reserveErr := c.reserve(root); err == nil {
		err = reserveErr
	}
	if err != nil {
		return c, err
	}
	err = c.partition(root)
	if err = errors.Join(err, c.settings(root, err != nil)); err != nil {
		//guard: one broken section refuses all of them
		c.Partitions, c.Workloads = nil, nil // never a part of the units
		return c, err
	}
	return c, nil
}

// partition reads the sections, and the facts of the node that they are validated against.
func (c *Config) partition(root host.Root) error {
	found, err := decodeSections(c.Kubelet)
	if len(found) == 0 {
		return err
	}
	c.sections = found
	n, readErr := readNode(root)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return errors.Join(err, c.judge(n))
}

// judge validates the sections for the node n and fills in the rest of c.
func (c *Config) judge(n *node) error {
	if _, ok := c.sections[partition.System]; ok && c.Kubelet.Kubelet.FeatureGates[Gate] {
		c.ManagedByKubelet = fmt.Sprintf("%s: featureGates: %s is on: the kubelet makes the system partition itself, leaving it alone",
			c.Kubelet.FileWith("featureGates"), Gate)
	}
	var names []partition.Name
	for _, name := range c.sections.names() {
		if !c.IsKubelets(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	warnings, err := newRequirements(c.Kubelet, n)
	var kubelets []Partition
	if c.ManagedByKubelet != "" {
		// What is wrong with it is the kubelet's business.
		p, _, _ := newPartition(c.Kubelet, partition.System, c.sections[partition.System], n)
		kubelets = append(kubelets, *p)
	}
	partitions, more, sectionsErr := newPartitions(c.Kubelet, c.sections, names, n, kubelets...)
	c.Warnings = slices.Concat(c.Warnings, warnings, more)
	workloads, more, workloadsErr := newWorkloads(c.Kubelet, c.sections, c.ManagedByKubelet)
	c.Warnings = slices.Concat(c.Warnings, more, pinnedElsewhere(c.Kubelet, c.sections))
	c.Partitions, c.Workloads = partitions, workloads
	if err = errors.Join(err, sectionsErr, workloadsErr); err != nil {
		return err
	}
	if file := c.Kubelet.System.File; c.System() != nil && !c.Kubelet.System.Overrides {
		c.KubeletsFile = fmt.Sprintf(
			"%s: the section %s is in the kubelet's own configuration: a kubelet that knows it does not start with it while its "+
				"feature gate %s is off, and kubeadm upgrade rewrites the file; move the section to %s",
			file,
			kubeletconfig.SectionField,
			Gate,
			kubeletconfig.OverridePath,
		)
	}
	return nil
}

// newPartitions validates the sections of partitions, alone and beside each other and those that
// the kubelet makes. With an error it returns the fields that have none.
func newPartitions(
	config *kubeletconfig.Merged, all sections, names []partition.Name, n *node, kubelets ...Partition,
) (list []Partition, warnings []string, err error) {
	for _, name := range names {
		if all[name].isTypeAlone() {
			continue
		}
		p, more, sectionErr := newPartition(config, name, all[name], n)
		list, warnings = append(list, *p), append(warnings, more...)
		err = errors.Join(err, sectionErr)
	}
	more, beside := overlapping(config, slices.Concat(kubelets, list), n)
	return list, append(warnings, more...), errors.Join(err, beside)
}

// nameAll lists the partitions that the node may have.
func (c *Config) nameAll() {
	c.Names = []partition.Name{partition.System}
	for _, p := range c.Partitions {
		if p.Name != partition.System {
			c.Names = append(c.Names, p.Name)
		}
	}
}

// SectionFile returns the last file that contributed to the section of a partition.
func (c *Config) SectionFile(p partition.Name) string {
	return c.Kubelet.SectionFileWith(SectionPath(p))
}

// At returns the file and the name of a field in the section of a partition, and its value, as the
// beginning of a message.
func (c *Config) At(p partition.Name, field string) string {
	path := SectionPath(p) + "." + field
	return fmt.Sprintf("%s: %s: %s", c.Kubelet.SectionFileWith(path), path, shown(c.sections[p][field]))
}
