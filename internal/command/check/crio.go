package check

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/admission/policy"
	"nodepartition/internal/crioconfig"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/oneline"
	"nodepartition/internal/quantity"
	"nodepartition/internal/workload"
	"nodepartition/pkg/slices/config"
)

// crioFacts holds CRI-O's table of workloads, and who keeps users from it.
type crioFacts struct {
	table []crioconfig.Workload
	// err is the error of the files.
	err error
	// pools holds the CPUs of the partition of each type, by the annotation that asks for it. Types
	// without CPUs are not in it.
	pools map[string]cpuset.CPUSet
	// runtime is the name of the runtime that answers; empty if none does.
	runtime string
	// openShift says why OpenShift's own API server guards the annotations; empty if it does not.
	openShift string
	// guarded means that the policies of render admission are in force. unknown is the reason why that
	// is not known.
	guarded bool
	unknown error
}

// crioWorkloads checks that no user can take CPUs by CRI-O's own table.
func (c *checks) crioWorkloads(ctx context.Context) []Finding {
	root := c.options.Node.Root
	f := crioFacts{runtime: c.runtimeName, openShift: kubeletconfig.OpenShift(root), pools: poolsOf(c.desired.Config)}
	f.table, f.err = crioconfig.Workloads(root)
	if f.mayGuard() {
		f.guarded, f.unknown = c.guarded(ctx)
	}
	return crioFindings(&f)
}

// poolsOf returns the CPUs of the partitions of types, by the annotations that ask for them.
func poolsOf(c *config.Config) map[string]cpuset.CPUSet {
	pools := map[string]cpuset.CPUSet{}
	for _, w := range c.Workloads {
		if p := c.Partition(w.Partition); p != nil && !p.CPUs.IsEmpty() {
			pools[workload.TargetPrefix+w.Type] = p.CPUs
		}
	}
	return pools
}

// crioName is the name by which CRI-O answers.
const crioName = "cri-o"

// mayGuard reports whether the policies decide about an entry of the table.
func (f *crioFacts) mayGuard() bool {
	if f.openShift != "" || f.runtime != "" && f.runtime != crioName {
		return false
	}
	for _, w := range f.table {
		if workload.IsTarget(w.Annotation) {
			return true
		}
	}
	return false
}

// guarded asks the API server for the policies of render admission.
func (c *checks) guarded(ctx context.Context) (bool, error) {
	if err := c.options.Node.Answers(); err != nil {
		return false, err
	}
	client, _, err := c.apiServer()
	if err != nil {
		return false, err
	}
	found, err := client.Policy(ctx, policy.Name)
	return found != nil && found.Denies, err
}

// crioFindings says which entries of the table any user can use.
func crioFindings(f *crioFacts) []Finding {
	switch {
	//guard: a table of CRI-O does not count where another runtime answers
	case f.runtime != "" && f.runtime != crioName:
		return saying(OK, "the runtime %s has no table of workloads", f.runtime)
	case f.err != nil:
		return saying(Warning, "whether CRI-O gives CPUs by an annotation is not known: %v", f.err)
	case len(f.table) == 0:
		return saying(OK, "CRI-O gives no CPUs by an annotation")
	}
	found := f.otherCPUs()
	if f.openShift != "" {
		return append(found, saying(OK, "OpenShift's API server guards CRI-O's table of workloads: %s", f.openShift)...)
	}
	var open, own []string
	for _, w := range f.table {
		text := fmt.Sprintf("%s in %s (%s%s)", oneline.ASCII(w.Annotation), w.File, cpusText(w.CPUs), allowsText(w.Allows))
		switch {
		case !workload.IsTarget(w.Annotation):
			own = append(own, text)
		case !f.guarded:
			open = append(open, text)
		}
	}
	if len(open) > 0 {
		why := "no admission policy " + policy.Name + " is in force"
		if f.unknown != nil {
			why = fmt.Sprintf("whether an admission policy guards it is not known: %v", f.unknown)
		}
		found = append(found, changing(
			Warning, "apply the policies of partition-monitor render admission, or remove the entry: a partition does not need it",
			"CRI-O gives any pod with the annotation CPUs and shares of its choice: %s: %s", strings.Join(open, ", "), why,
		)...)
	}
	if len(own) > 0 {
		found = append(found, changing(
			Warning, "remove the entry, or guard the annotation by an admission policy of your own and set --ignore=crio-workloads",
			"CRI-O gives any pod with the annotation CPUs and shares of its choice: %s: "+
				"the policies of partition-monitor render admission are not about this annotation", strings.Join(own, ", "),
		)...)
	}
	if found == nil {
		found = saying(OK, "the policy %s guards CRI-O's table of workloads", policy.Name)
	}
	return found
}

// otherCPUs lists the entries that give other CPUs than the partition of the type has.
func (f *crioFacts) otherCPUs() []Finding {
	var found []Finding
	for _, w := range f.table {
		pool, is := f.pools[w.Annotation]
		if !is || w.CPUs == "" {
			continue
		}
		if cpus, err := quantity.ParseCPUs(w.CPUs); err != nil || !cpus.Equals(pool) {
			found = append(found, changing(
				Warning, "write the CPUs of the partition there, as partition-monitor render crio does, or remove the entry",
				"CRI-O gives a container with %s %s by %s, and its partition has the CPUs %s",
				oneline.ASCII(w.Annotation), cpusText(w.CPUs), w.File, pool,
			)...)
		}
	}
	return found
}

func allowsText(list string) string {
	if list == "" {
		return ""
	}
	return ", and allows " + oneline.ASCII(list)
}

func cpusText(list string) string {
	if list == "" {
		return "without CPUs"
	}
	return "CPUs " + oneline.ASCII(list)
}
