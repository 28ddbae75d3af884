package plan

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/budget"
	"nodepartition/internal/bytesize"
	"nodepartition/internal/oneline"
)

// nodeClass is the part of an EC2NodeClass from which Karpenter computes Node Allocatable of nodes
// that do not exist yet (kubeReservedResources, systemReservedResources and evictionThreshold,
// pkg/providers/instancetype/types.go, 1.14.1). A map that is left out means
// Karpenter's default.
type nodeClass struct {
	Spec struct {
		Kubelet struct {
			KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
			SystemReserved map[string]string `json:"systemReserved,omitempty"`
			EvictionHard   map[string]string `json:"evictionHard,omitempty"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// classSignals lists the thresholds that an EC2NodeClass may have. The kubelet knows others.
var classSignals = []string{
	"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"pid.available",
}

// noThreshold switches a threshold off, for the kubelet and for Karpenter.
const noThreshold = "0%"

// isValid reports whether the section of the plan is valid.
func (p Plan) isValid() bool { return p.Invalid == nil }

// WriteKarpenter writes the settings of the kubelet for an EC2NodeClass with which Karpenter and
// the kubelet have the same Node Allocatable, and the partition is not in it: systemReserved
// includes the memory that the scheduler would promise to user pods, too. A plan whose section is
// not valid has no such settings, and nothing is written.
func WriteKarpenter(w io.Writer, p Plan) error {
	if !p.isValid() {
		return nil
	}
	//guard: settings for Karpenter leave allocatable memory
	if p.PromisedBytes > 0 && p.PromisedBytes >= p.Allocatable.MemoryBytes {
		return fmt.Errorf("systemReserved with the %s of the partition leaves nothing of the %s that are allocatable; "+
			"lower memoryLimit, or plan a larger node", bytesize.Round(p.PromisedBytes), bytesize.Round(p.Allocatable.MemoryBytes))
	}
	var class nodeClass
	class.Spec.Kubelet.KubeReserved = p.classKubeReserved()
	class.Spec.Kubelet.SystemReserved = p.classSystemReserved()
	class.Spec.Kubelet.EvictionHard = p.classEvictionHard()
	text, err := yaml.Marshal(class)
	if err != nil {
		return err
	}
	for _, line := range p.classRemarks(class.Spec.Kubelet.KubeReserved != nil) {
		fmt.Fprintf(w, "# %s\n", oneline.Terminal(line))
	}
	_, err = w.Write(text)
	return err
}

// classKubeReserved returns kubeReserved, or nil where the configuration has none: Karpenter then
// computes it for each instance type. It has each resource, because Karpenter computes what is
// missing.
func (p *Plan) classKubeReserved() map[string]string {
	r := p.KubeReserved
	if r.MilliCPU == 0 && r.MemoryBytes == 0 && (r.StorageBytes == nil || *r.StorageBytes == 0) {
		return nil
	}
	list := map[string]string{"cpu": cpuText(r.MilliCPU), "memory": binary(r.MemoryBytes)}
	if r.StorageBytes != nil {
		list["ephemeral-storage"] = binary(*r.StorageBytes)
	}
	return list
}

// classSystemReserved returns systemReserved with the partition, in whole mebibytes.
func (p *Plan) classSystemReserved() map[string]string {
	const mebi = 1 << 20
	list := map[string]string{}
	r := p.SystemReserved
	if r.MilliCPU > 0 {
		list["cpu"] = cpuText(r.MilliCPU)
	}
	switch {
	case p.PromisedBytes > 0:
		list["memory"] = binary((r.MemoryBytes + p.PromisedBytes + mebi - 1) / mebi * mebi)
	case r.MemoryBytes > 0:
		list["memory"] = binary(r.MemoryBytes)
	}
	if r.StorageBytes != nil && *r.StorageBytes > 0 {
		list["ephemeral-storage"] = binary(*r.StorageBytes)
	}
	return list
}

// classEvictionHard returns evictionHard, or nil where Karpenter counts the thresholds of the
// configuration anyway: its defaults are the kubelet's. A threshold that the kubelet does not have
// is switched off, because Karpenter would count its default.
func (p *Plan) classEvictionHard() map[string]string {
	same := true
	list := map[string]string{}
	for signal, value := range budget.DefaultEvictionHard() {
		written, ok := p.evictionHard[signal]
		if !ok {
			list[signal] = noThreshold
		}
		same = same && written == value
	}
	if same {
		return nil
	}
	for _, signal := range classSignals {
		if value, ok := p.evictionHard[signal]; ok {
			list[signal] = value
		}
	}
	return list
}

// classRemarks returns how the settings came about.
func (p *Plan) classRemarks(hasKubeReserved bool) []string {
	lines := []string{
		"For an EC2NodeClass of Karpenter (karpenter.k8s.aws/v1), by partition-monitor plan.",
		"Configuration: " + origin(p.Configuration),
	}
	if p.PromisedBytes > 0 {
		var limits int64
		names := make([]string, 0, len(p.Partitions))
		for i := range p.Partitions {
			limits += p.Partitions[i].MemoryBytes
			names = append(names, string(p.Partitions[i].Name))
		}
		partitions := "partition"
		if len(names) > 1 {
			partitions = "partitions"
		}
		base := bytesize.Round(p.SystemReserved.MemoryBytes)
		lines = append(lines, fmt.Sprintf("systemReserved.memory: %s of the configuration, and %s of the %s %s.",
			base, bytesize.Round(p.PromisedBytes), partitions, strings.Join(names, ", ")))
		if requested := limits - p.PromisedBytes; requested > 0 {
			lines = append(lines, fmt.Sprintf("That is memoryLimit, %s, less the %s that members request.",
				bytesize.Round(limits), bytesize.Round(requested)))
		} else {
			lines = append(lines, "That is all of memoryLimit. Subtract the memory that DaemonSets of its namespaces request.")
		}
		if p.SystemReserved.MemoryBytes > 0 {
			lines = append(lines, fmt.Sprintf("If the %s include the partition already, write %[1]s.", base))
		}
	}
	if hasKubeReserved {
		lines = append(lines, "kubeReserved is from this configuration. Without it Karpenter computes one for each instance type.")
	}
	less := ""
	if !hasKubeReserved {
		less = ", less the kubeReserved that Karpenter computes for the instance type"
	}
	lines = append(lines, fmt.Sprintf("Node Allocatable becomes cpu %s, memory %s%s.",
		cpuText(p.Allocatable.MilliCPU), bytesize.Round(p.Allocatable.MemoryBytes-p.PromisedBytes), less))
	warnings := p.Warnings
	if p.Unreserved {
		warnings = warnings[:len(warnings)-1] // the settings include the partition
	}
	for _, warning := range warnings {
		lines = append(lines, "warning about the configuration: "+warning)
	}
	return lines
}

// binary returns a number of bytes as Kubernetes writes it, exactly.
func binary(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
