// Package config reads the operator's settings for a node: the systemPartition section of the
// kubelet's configuration (KEP-5894), the off switch on the kernel command line, the kubelet's
// feature gate and reserved cgroups, and the settings for services.
//
// It reads everything before it validates anything. It validates a section against the kubelet's
// own settings and against the node's memory, CPUs and cgroup controllers. Nothing here depends on
// how the partition is made: pkg/slices does that.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

const (
	// Gate is the kubelet's own feature gate for KEP-5894. With the gate on, a kubelet makes the
	// slices itself, under the same names.
	Gate = "NodeSystemPartition"
	// Documentation is the URL that systemctl status shows for our units. It is no man: URL, because
	// systemd-analyze verify complains of one if the manual page is not installed (252 and 257).
	Documentation = "https://kep.k8s.io/5894"
	// StateDir keeps the state of both programs until the next boot. The path is below the root.
	StateDir = "/run/node-partition"
)

// Config holds the settings from the configuration and from the kernel command line.
type Config struct {
	// Partition is the valid section; nil if there is no partition to make.
	Partition *Partition
	// Name is the name of the partition. It is set even if there is no partition to make, because its
	// cgroup may still exist. Only this package depends on there being exactly one partition.
	Name unitname.Partition
	// Reserved holds the slices that the kubelet expects, with and without a partition. It is also set
	// if Load returns an error: the kubelet does not start without them.
	Reserved Reserved
	// Services holds the settings for the services of the kubelet and of the runtime. They apply with
	// and without a partition.
	Services Services
	// Settings holds the settings of the partition outside its section. It is the zero value without a
	// partition.
	Settings PartitionSettings
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
	// Kubelet is the configuration that holds the section. It is never nil, and it is empty if Off is
	// set.
	Kubelet *kubeletconfig.Config

	section map[string]json.RawMessage // the fields of the section; nil if there is none
}

// Load reads the configuration of the node at root, "/" except in tests. If it returns an error,
// nothing of the configuration is applied but Reserved: Partition is nil, and the error joins one
// error for each problem in the section and in the settings for services and of the partition.
func Load(root string) (*Config, error) { return load(hostfs.FS(root), kubeletconfig.Load) }

// LoadWith is Load with a document in place of kubeletconfig.OverridePath. Messages call the
// document name. It validates a section before the section is in force.
func LoadWith(root, name string, data []byte) (*Config, error) {
	return load(hostfs.FS(root), func(node hostfs.FS) (*kubeletconfig.Config, error) {
		return kubeletconfig.LoadWith(node, name, data)
	})
}

func load(root hostfs.FS, read func(hostfs.FS) (*kubeletconfig.Config, error)) (*Config, error) {
	c := &Config{Name: unitname.System, Kubelet: &kubeletconfig.Config{}}
	var err error
	if c.Off, err = switchedOff(root); err != nil || c.Off {
		c.reserveOnly(root, read)
		return c, err
	}
	c.Kubelet, err = read(root)
	c.Warnings = c.Kubelet.Warnings
	if reserveErr := c.reserve(root); err == nil {
		err = reserveErr
	}
	if err != nil {
		return c, err
	}
	services, err := newServices(c.Kubelet.Services)
	settings, settingsErr := newPartitionSettings(c.Kubelet.Partition)
	if err = errors.Join(c.partition(root), err, settingsErr); err != nil {
		c.Partition = nil
		return c, err
	}
	c.Services = services
	c.placeServices()
	c.placeFloors(root, settings)
	return c, nil
}

// reserveOnly finds the reserved slices and nothing else. It ignores errors: with the off switch no
// broken file is in the way.
func (c *Config) reserveOnly(root hostfs.FS, read func(hostfs.FS) (*kubeletconfig.Config, error)) {
	var alone Config
	alone.Kubelet, _ = read(root)
	_ = alone.reserve(root)
	c.Reserved, c.Warnings = alone.Reserved, alone.Warnings
}

// partition reads the section, and the facts of the node that it is validated against.
func (c *Config) partition(root hostfs.FS) error {
	var err error
	if c.section, err = decodeSection(c.Kubelet); err != nil || c.section == nil {
		return err
	}
	n, err := readNode(root)
	if err != nil {
		return err
	}
	return c.judge(n)
}

// judge validates the section for the node n and fills in the rest of c.
func (c *Config) judge(n *node) error {
	if c.Kubelet.Kubelet.FeatureGates[Gate] {
		c.ManagedByKubelet = fmt.Sprintf("%s: featureGates: %s is on: the kubelet makes the system partition itself, leaving it alone",
			c.Kubelet.FileWith("featureGates"), Gate)
		return nil
	}
	p, warnings, err := newPartition(c.Kubelet, c.section, n)
	c.Warnings = slices.Concat(c.Warnings, warnings)
	if err != nil {
		return err
	}
	c.Partition = p
	if c.Kubelet.SectionFile != kubeletconfig.OverridePath {
		c.KubeletsFile = fmt.Sprintf(
			"%s: the section %s is in the kubelet's own configuration: a kubelet that knows it does not start with it while its "+
				"feature gate %s is off, and kubeadm upgrade rewrites the file; move the section to %s",
			c.Kubelet.SectionFile,
			kubeletconfig.SectionField,
			Gate,
			kubeletconfig.OverridePath,
		)
	}
	return nil
}

// At returns the file and the name of a field of the section, and its value, as the beginning of a
// message.
func (c *Config) At(field string) string {
	return fmt.Sprintf(
		"%s: %s.%s: %s",
		c.Kubelet.SectionFileWith(field), kubeletconfig.SectionField, field, shown(c.section[field]),
	)
}
