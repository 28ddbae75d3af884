package audit

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/cpuweight"
	"nodepartition/internal/membership"
	"nodepartition/internal/unitname"
)

// audit applies the rules to a snapshot.
type audit struct {
	*Facts
	report Report
	// found holds the paths with a finding. A path has one finding: the first.
	found map[string]bool
	// scopes holds the scopes of containers by the ID of the container.
	scopes map[string]string
	// asking and containersOf hold what was computed of a pod: several rules ask for it.
	asking       map[*v1.Pod]askedTime
	containersOf map[*v1.Pod][]container
	// formula is the one by which the kubelet writes slices, as far as the tree shows it.
	formula cpuweight.Formula
}

// RulePartitionCPUs names the rule about the CPUs of the partition and of user pods.
const RulePartitionCPUs = "partition-cpus"

// rule is a rule with its name.
type rule struct {
	name  string
	check func(*audit)
}

var partitionCPUs = rule{RulePartitionCPUs, (*audit).partitionCPUs}

// rules lists the rules. The first compares cgroups with systemd's properties: a file that somebody
// has written beside systemd has that finding, and no other.
var rules = []rule{
	{"second-writer", (*audit).secondWriters},
	{"node-limits", (*audit).nodeLimits},
	{"collective-limit", (*audit).collectiveLimits},
	{"qos-weight", (*audit).qosWeights},
	{"pod-limits", (*audit).podSlices},
	{"container-limits", (*audit).containers},
	{"reserved-limits", (*audit).reservedSlices},
	{"kubelet-cgroup", (*audit).kubeletCgroup},
	partitionCPUs,
	{"systemd-oomd", (*audit).oomd},
	{"kernel-parameter", (*audit).kernelParameters},
	{"oom-score", (*audit).oomScores},
}

// kubepods is the slice of all pods.
var kubepods = unitname.Default.Slice()

// Run returns the findings in the order of the rules, and within a rule in the order of the paths.
func Run(s *Facts) Report {
	a := newAudit(s)
	if s.Kubelet == nil {
		a.skip("limits of kubepods.slice, of reserved slices and of CPU quotas: no kubelet runs as kubelet.service, so its flags are not known")
	}
	if !s.PodsKnown {
		a.skip("limits, weights and OOM scores of pods and containers: %s", cmp.Or(s.PodsUnknown, "the kubelet does not serve its Pods API"))
	}
	a.findFormulas()
	for _, r := range rules {
		a.apply(r)
	}
	return a.report
}

// PartitionCPUs returns the findings of the rule RulePartitionCPUs alone. Of the snapshot it needs
// Kubelet, Partitions, Members, the pods, the CPUs of Node, and in Cgroups the cpusets of
// containers.
func PartitionCPUs(s *Facts) Report {
	a := newAudit(s)
	a.apply(partitionCPUs)
	return a.report
}

func newAudit(s *Facts) *audit {
	a := &audit{Facts: s, found: map[string]bool{}, scopes: map[string]string{}}
	a.asking, a.containersOf = map[*v1.Pod]askedTime{}, map[*v1.Pod][]container{}
	a.report = Report{Findings: []Finding{}, NotChecked: []string{}}
	for cgroup := range s.Cgroups {
		if id := unitname.ContainerID(path.Base(cgroup)); id != "" {
			a.scopes[id] = cgroup
		}
	}
	return a
}

// apply adds the findings of a rule in the order of their paths.
func (a *audit) apply(r rule) {
	before := len(a.report.Findings)
	r.check(a)
	added := a.report.Findings[before:]
	for i := range added {
		added[i].Rule = r.name
	}
	slices.SortStableFunc(added, func(x, y Finding) int { return strings.Compare(x.Path, y.Path) })
}

func (a *audit) skip(format string, args ...any) {
	a.report.NotChecked = append(a.report.NotChecked, fmt.Sprintf(format, args...))
}

// add adds a finding, unless its path has one already.
func (a *audit) add(f Finding) {
	if a.found[f.Path] {
		return
	}
	a.found[f.Path] = true
	a.report.Findings = append(a.report.Findings, f)
}

// file returns the path of a cgroup's file.
func file(cgroup, name string) string { return path.Join(unitname.CgroupMount, cgroup, name) }

// sorted returns the paths of the cgroups in order.
func (a *audit) sorted() []string { return slices.Sorted(maps.Keys(a.Cgroups)) }

// limit is an expectation of a file of a cgroup.
type limit struct {
	cgroup, name string
	expected     value
	severity     Severity
	why          string
	document     string
}

// expect adds a finding if a file of a cgroup does not have its value. A file that is missing, or
// that cannot be parsed, is none.
func (a *audit) expect(l limit) {
	text, ok := a.Cgroups[l.cgroup][l.name]
	if !ok || l.expected.equal(text) {
		return
	}
	a.add(Finding{
		Severity: l.severity, Path: file(l.cgroup, l.name), Value: text, Expected: l.expected.text(), Why: l.why,
		Document: l.document, Cure: setProperty(path.Base(l.cgroup), l.expected.property()),
	})
}

// setProperty returns the command that changes a property until the next boot, as the kubelet does.
func setProperty(unit, assignment string) string {
	if strings.HasPrefix(unit, "-") {
		unit = "-- " + unit
	}
	return fmt.Sprintf("systemctl set-property --runtime %s %s", unit, assignment)
}

// member reports whether the pod is a member of the partition.
func (a *partitionAudit) member(pod *v1.Pod) bool {
	return a.Members.Partition(membership.Pod{
		Namespace: pod.Namespace, Guaranteed: pod.Status.QOSClass == v1.PodQOSGuaranteed,
		Origin: membership.OriginOf(pod.Annotations),
	}) == a.Name
}
