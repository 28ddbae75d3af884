package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/internal/thresholds"
)

// Partition is a partition to make: a valid section, and the settings outside of it.
type Partition struct {
	Name partition.Name
	// Protection is the protected memory of the partition.
	Protection cgroups.Protection
	// SwapMax bounds the swap space that the partition may use, in bytes; nil for no bound.
	SwapMax *uint64
	// Thresholds holds the limit and the thresholds of eviction, in bytes. Without a limit the
	// partition only sets CPU weights and reports usage, and nothing is limited or evicted.
	thresholds.Thresholds
	// Share has the percentage that Limit was computed from; nil for a quantity in the file.
	Share *Share
	// CPUs holds the CPUs the partition may run on; empty means all.
	CPUs cpuset.CPUSet
	// Exclusive keeps all other pods off CPUs, which is not empty then.
	Exclusive bool
	// NodeCPUs holds the CPUs that the node has.
	NodeCPUs cpuset.CPUSet
	// Namespaces lists the namespaces whose pods are members. It has no duplicates, and no namespace
	// of another partition. The system partition has at least one.
	Namespaces []string
	// MemoryHigh is in bytes and below Limit. Above it the kernel slows the partition down. 0 means
	// none.
	MemoryHigh uint64

	amounts amounts
}

const (
	// staticPolicy is the CPU manager policy that assigns CPUs to containers exclusively.
	staticPolicy = "static"
	// leastLimit is the limit below which no process starts, and smallLimit the one below which no
	// partition works: the smallest kube-system, a CNI agent and kube-proxy, takes more.
	leastLimit, smallLimit = 1 << 20, 64 << 20
	// notBool is what is wrong with a field that has one of two values.
	notBool = "is not true or false"
	// maxNamespaces bounds the number of messages about namespaces. A cluster has some ten system
	// namespaces.
	maxNamespaces = 1000
)

// checker validates configuration and node in the order in which an operator meets the rules.
type checker struct {
	config   *kubeletconfig.Merged
	node     *node
	name     partition.Name
	section  section
	problems problems
	warnings []string
}

// newPartition validates the section of a partition for the node. With an error, which lists every
// problem, it returns the fields that have none.
func newPartition(
	config *kubeletconfig.Merged,
	name partition.Name,
	fields section,
	n *node,
) (*Partition, []string, error) {
	c := checker{config: config, node: n, name: name, section: fields}
	c.unknownFields()
	p := c.partition()
	return p, c.warnings, c.problems.err()
}

// newRequirements validates what all partitions need of the node, and of the kubelet's settings.
func newRequirements(config *kubeletconfig.Merged, n *node) (warnings []string, err error) {
	c := checker{config: config, node: n, name: partition.First}
	c.cgroups()
	c.kubelet()
	return c.warnings, c.problems.err()
}

// partition reads the fields of the section. A field with a problem has its zero value, or the
// value that does not fit.
func (c *checker) partition() *Partition {
	p := Partition{Name: c.name, NodeCPUs: c.node.present}
	p.Namespaces = c.namespaces()
	p.Limit, p.Share = c.memoryLimit()
	p.CPUs = c.cpus()
	p.Exclusive = c.exclusive(p.CPUs)
	c.halves(&p)
	c.readAmounts(&p)
	c.resolve(&p)
	return &p
}

// bad reports a problem in a field of the section, or in an entry of one, such as namespaces[1].
func (c *checker) bad(field, value, format string, args ...any) {
	name, _, _ := strings.Cut(field, "[")
	c.problems.add(c.fileWith(name), SectionPath(c.name)+"."+field, value, format, args...)
}

// warn reports something in a field of the section that leaves the section valid.
func (c *checker) warn(field, format string, args ...any) {
	name, _, _ := strings.Cut(field, "[")
	c.warnings = append(c.warnings, c.fileWith(name)+": "+SectionPath(c.name)+"."+field+": "+fmt.Sprintf(format, args...))
}

// read reads a field of the section. It reports false for a value of another type, which is a
// problem. Where the field is absent the value stays.
func (c *checker) read(field string, value any, why string) bool {
	raw := c.section[field]
	if raw == nil || json.Unmarshal(raw, value) == nil {
		return true
	}
	c.bad(field, shown(raw), "%s", why)
	return false
}

func (c *checker) fileWith(field string) string {
	return c.config.SectionFileWith(SectionPath(c.name) + "." + field)
}

// remark reports something in the section, at a field of it, that leaves the section valid.
func (c *checker) remark(field, format string, args ...any) {
	c.warnings = append(c.warnings, c.fileWith(field)+": "+SectionPath(c.name)+": "+fmt.Sprintf(format, args...))
}

// knownFields lists the fields that the section of a partition may have.
func knownFields(p partition.Name) []string {
	if p == partition.System {
		return fieldNames[systemSection]()
	}
	return fieldNames[workloadSection]()
}

func (c *checker) unknownFields() {
	known := knownFields(c.name)
	var unknown []string
	for name := range c.section {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	const named = 10
	for i, name := range unknown {
		if i == named {
			c.remark(name, "%d more unknown fields, ignoring", len(unknown)-named)
			break
		}
		c.remark(name, "unknown field %s, ignoring; known are %s", quote(name), strings.Join(known, ", "))
	}
}

// neededControllers lists the controllers of cgroup v2 without which there is no partition.
func neededControllers() []string { return []string{"memory", "cpuset"} }

func (c *checker) cgroups() {
	unfit := func(format string, args ...any) { c.problems.add(controllersPath, "", "", format, args...) }
	if c.node.controllers == nil {
		unfit("not there: the node does not run cgroup v2, which the system partition needs; " +
			"boot with systemd.unified_cgroup_hierarchy=1 or a newer distribution")
		return
	}
	for _, need := range neededControllers() {
		if !slices.Contains(c.node.controllers, need) {
			unfit("the kernel offers no %s controller; remove cgroup_disable=%s from the kernel command line "+
				"or use a kernel that has it", need, need)
		}
	}
}

// badKubelet reports a problem in a field of the kubelet's own settings.
func (c *checker) badKubelet(field, value, format string, args ...any) {
	c.problems.add(c.config.FileWith(field), field, value, format, args...)
}

func (c *checker) kubelet() {
	k := &c.config.Kubelet
	if k.CgroupDriver != "" && k.CgroupDriver != "systemd" {
		// This need not be a problem. The kubelet follows the runtime's answer where it gets one
		// (KubeletCgroupDriverFromCRI, GA in 1.34), and no runtime is there yet that we could ask.
		c.warnings = append(
			c.warnings,
			fmt.Sprintf("%s: cgroupDriver: %s: the partition is made of systemd slices, and with another driver no pod "+
				"comes into it, but where the runtime tells the kubelet to use systemd: making it; want systemd",
				c.config.FileWith("cgroupDriver"), quote(k.CgroupDriver)),
		)
	}
	if k.CgroupsPerQOS != nil && !*k.CgroupsPerQOS {
		c.badKubelet("cgroupsPerQOS", "false", "without it the kubelet makes no cgroups for pods; want true")
	}
	if k.CgroupRoot != "" && k.CgroupRoot != "/" {
		c.badKubelet("cgroupRoot", quote(k.CgroupRoot), "partitions are below %s at the root; want / or no value", partition.Default.Slice())
	}
}

func (c *checker) namespaces() []string {
	const field = "namespaces"
	list, ok := c.namespaceList(field, "kube-system")
	if ok && len(list) == 0 && c.name == partition.System {
		c.bad(field, "", "names no namespace; want at least one, e.g. [kube-system]")
	}
	return list
}

// namespaceList reads a field with a list of namespaces. It reports false for what is not one. A
// namespace with a problem stays in the list.
func (c *checker) namespaceList(field, example string) (list []string, ok bool) {
	if !c.read(field, &list, "is not a list of strings; want e.g. ["+example+"]") {
		return nil, false
	}
	if len(list) > maxNamespaces {
		c.bad(field, "", "has %d entries; want at most %d", len(list), maxNamespaces)
		return nil, false
	}
	first := map[string]int{}
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		earlier, taken := first[name]
		switch {
		case !partition.IsLabel(name):
			c.bad(
				at, quote(name),
				"is not the name of a namespace; want an RFC 1123 label: lower case letters, digits and -, at most 63",
			)
		case taken:
			c.bad(at, quote(name), "is in %s[%d] already; remove one", field, earlier)
		default:
			first[name] = i
		}
	}
	return list, true
}

// pods returns the pods that the partition is for, in the words of a message.
func (c *checker) pods() string {
	if c.name == partition.System {
		return "system pods"
	}
	return "pods"
}

func (c *checker) cpus() cpuset.CPUSet {
	const field = "cpuset"
	none := cpuset.New()
	var list string
	if !c.read(field, &list, `is not a string; put it in quotes: "0-3,8"`) {
		return none
	}
	if list == "" {
		if c.config.Kubelet.CPUManagerPolicy == staticPolicy {
			c.warn(
				field,
				"is missing: with cpuManagerPolicy static the pods of the partition run on the CPUs that the kubelet gives them, "+
					"beside those of users; want a part of reservedSystemCPUs to keep them there",
			)
		}
		return none
	}
	cpus, err := text.ParseCPUs(list)
	if err != nil {
		c.bad(field, quote(list), "%v", err)
		return none
	}
	if missing := cpus.Difference(c.node.present); c.node.knowsCPUs() && !missing.IsEmpty() {
		c.bad(field, quote(list), "the node has no CPU %s; want CPUs of %s", missing, c.node.CPUs)
		return none
	}
	if offline := cpus.Difference(c.node.CPUs); c.node.knowsCPUs() && !offline.IsEmpty() {
		c.bad(field, quote(list), "CPU %s is offline; want CPUs of %s", offline, c.node.CPUs)
		return none
	}
	c.reserved(cpus, list)
	return cpus
}

// exclusive reads the field of that name. Whether the CPUs are in no other partition is validated
// when all of them are known.
func (c *checker) exclusive(cpus cpuset.CPUSet) bool {
	const field = "exclusive"
	var is bool
	c.read(field, &is, notBool)
	if is && cpus.IsEmpty() && !c.problems.about(SectionPath(c.name)+".cpuset") {
		c.bad(field, shown(c.section[field]), "needs a cpuset, from which other pods are kept off")
	}
	return is && !cpus.IsEmpty()
}

// halves warns where others run on the other half of a core of the partition's, and either slows
// the other: those of exclusive CPUs, and those that the static CPU manager assigns.
func (c *checker) halves(p *Partition) {
	shared := p.CPUs
	if c.node.siblings == nil {
		return
	}
	if !p.Exclusive {
		if c.config.Kubelet.CPUManagerPolicy != staticPolicy {
			return
		}
		reserved, _ := text.ParseCPUs(c.config.Kubelet.ReservedSystemCPUs) // reserved reports the error
		shared = shared.Union(reserved)
	}
	others := cpuset.New()
	for _, cpu := range p.CPUs.UnsortedList() {
		others = others.Union(c.node.siblings(cpu).Difference(shared))
	}
	if !others.IsEmpty() {
		c.warn("cpuset", "CPU %s shares a core with CPUs of %s: what runs there and the pods of the partition slow each other; want whole cores",
			others, p.CPUs)
	}
}

// reserved checks that the CPUs of the partition are among those the kubelet keeps for the system.
// The static CPU manager hands all other CPUs to containers exclusively.
func (c *checker) reserved(cpus cpuset.CPUSet, list string) {
	const field = "reservedSystemCPUs"
	k := &c.config.Kubelet
	if k.ReservedSystemCPUs == "" {
		if k.CPUManagerPolicy == staticPolicy {
			c.badKubelet(field, "", "is missing; with cpuManagerPolicy static it must hold the CPUs of the partition, %s", cpus)
		}
		return
	}
	reserved, err := text.ParseCPUs(k.ReservedSystemCPUs)
	if err != nil {
		c.badKubelet(field, quote(k.ReservedSystemCPUs), "%v", err)
		return
	}
	if outside := cpus.Difference(reserved); !outside.IsEmpty() {
		c.bad("cpuset", quote(list), "CPU %s is not one of reservedSystemCPUs, %s; want a part of those", outside, reserved)
	}
}

// shown returns a JSON value for a message: a string quoted, anything else unchanged but for unfit
// characters.
func shown(raw json.RawMessage) string {
	var content string
	if json.Unmarshal(raw, &content) == nil {
		return quote(content)
	}
	return text.ASCII(string(raw))
}
