// Package config reads what the operator asks of a node: the systemPartition section of the kubelet's
// configuration (KEP-5894), the off switch on the kernel command line, and the kubelet's feature gate.
//
// It reads first and judges then. A section is judged by the kubelet's own settings and by the node's memory, CPUs
// and cgroup controllers. Nothing here depends on how the partition is made: pkg/slices does that.
package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/unitname"
)

const (
	// Gate is the kubelet's own feature gate for KEP-5894. A kubelet with it on makes the slices itself, under
	// the same names.
	Gate = "NodeSystemPartition"
	// Documentation is what systemctl status shows of our units. Not man:, which systemd-analyze verify complains of where the
	// manual page is not installed (252 and 257).
	Documentation = "https://kep.k8s.io/5894"
	// StateDir keeps the state of both programs until the next boot, below the root.
	StateDir = "/run/node-partition"
)

// Config is what the configuration and the node's kernel command line ask for.
type Config struct {
	// Partition is the valid section; nil where there is no partition to make.
	Partition *Partition
	// Name is the partition's, also where there is none to make: its cgroup may be left. Nothing but this
	// package knows that there is one partition.
	Name unitname.Partition
	// Off is set where the kernel command line switches the partition off. One that cannot be read counts as off, and comes
	// with an error.
	Off bool
	// Yields is set where the kubelet makes the partition itself, and says so for the operator.
	Yields string
	// KubeletsFile is set where the section stands in the kubelet's own configuration, and says why it should not.
	KubeletsFile string
	// Warnings are remarks that did not stop us; each says what happens next.
	Warnings []string
	// Kubelet is the configuration that has the section. It is never nil, and empty where Off is set.
	Kubelet *kubeletconfig.Config

	section map[string]json.RawMessage // its fields; nil where there is none
}

// Load reads the configuration of the node at root, "/" but for tests. Where it returns an error, nothing of the
// configuration is applied: Partition is nil, and the error joins one for each thing that is wrong with the section.
func Load(root string) (*Config, error) { return load(hostfs.FS(root), kubeletconfig.Load) }

// LoadWith is Load with a document, called name in messages, in place of kubeletconfig.OverridePath: its section is
// judged before it is in force.
func LoadWith(root, name string, data []byte) (*Config, error) {
	return load(hostfs.FS(root), func(node hostfs.FS) (*kubeletconfig.Config, error) {
		return kubeletconfig.LoadWith(node, name, data)
	})
}

func load(root hostfs.FS, read func(hostfs.FS) (*kubeletconfig.Config, error)) (*Config, error) {
	c := &Config{Name: unitname.System, Kubelet: &kubeletconfig.Config{}}
	var err error
	if c.Off, err = switchedOff(root); err != nil || c.Off {
		return c, err
	}
	if c.Kubelet, err = read(root); err != nil {
		return c, err
	}
	if c.section, err = decodeSection(c.Kubelet); err != nil {
		return c, err
	}
	var n *node
	if c.section != nil {
		if n, err = readNode(root); err != nil {
			return c, err
		}
	}
	return c, c.judge(n)
}

// judge decides what comes of the section on the node n.
func (c *Config) judge(n *node) error {
	c.Warnings = c.Kubelet.Warnings
	switch {
	case c.section == nil:
		return nil
	case c.Kubelet.Kubelet.FeatureGates[Gate]:
		c.Yields = fmt.Sprintf("%s: featureGates: %s is on: the kubelet makes the system partition itself, leaving it alone",
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
		c.KubeletsFile = fmt.Sprintf("%s: the section %s stands in the kubelet's own configuration: a kubelet that knows it does not start with it while its "+
			"feature gate %s is off, and kubeadm upgrade writes the file anew; move the section to %s",
			c.Kubelet.SectionFile, kubeletconfig.SectionField, Gate, kubeletconfig.OverridePath)
	}
	return nil
}

// At returns where a field of the section stands, and its value, as the beginning of a message.
func (c *Config) At(field string) string {
	return fmt.Sprintf("%s: %s.%s: %s", c.Kubelet.SectionFileWith(field), kubeletconfig.SectionField, field, shown(c.section[field]))
}
