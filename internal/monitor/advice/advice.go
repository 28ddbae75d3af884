// Package advice reads a history, has a recommendation computed, and writes it as a section that
// "partition-monitor try" takes. It changes nothing.
package advice

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/history"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/recommend"
	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// Options holds the flags of the command recommend.
type Options struct {
	// Dir is the folder of the history.
	Dir string
	// Since is the time from which on samples count.
	Since time.Time
	// Now is the time after which samples do not count: a clock was wrong when they were taken.
	Now time.Time
	// AtLimit in bytes is a limit to simulate, 0 for none.
	AtLimit uint64
	// Protected selects the pods that are never evicted.
	Protected evict.Protected
}

// Advice holds the output of the command recommend. Its JSON is for scripts: new versions add
// fields and do not change them.
type Advice struct {
	recommend.Recommendation
	// SystemPartition is the present section with the recommended values. It is absent without any.
	SystemPartition map[string]any `json:"systemPartition,omitempty"`
}

// leastPerCPU in bytes is the part of the least threshold for each CPU (README.md).
const leastPerCPU = 512 << 10

// Read computes the recommendation.
func Read(ctx context.Context, o Options) (Advice, error) {
	h, err := history.Load(ctx, o.Dir)
	if err != nil {
		return Advice{}, err
	}
	var list []samples.Sample
	future := 0
	for _, s := range h.Coarse() {
		switch {
		case s.Time.After(o.Now):
			future++
		case s.Time.After(o.Since):
			list = append(list, s)
		}
	}
	a := Advice{Recommendation: recommend.Compute(recommend.Input{
		Samples: list, Protected: o.Protected, AtLimit: o.AtLimit, LeastThreshold: uint64(runtime.NumCPU()) * leastPerCPU,
		NodeBytes: node.MemoryCapacity(),
	})}
	if future > 0 {
		a.warn("%d samples are from the future, and left out: the clock was changed", future)
	}
	if h.Broken > 0 {
		a.warn("%d lines of the history are broken, and left out", h.Broken)
	}
	if a.MemoryLimit == nil {
		return a, nil
	}
	return a, a.section()
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// The fields of the section that are replaced.
const (
	fieldLimit      = "memoryLimit"
	fieldHard       = "evictionHard"
	fieldNamespaces = "namespaces"
	signal          = "memory.available"
)

// section puts the recommended values into the present section.
func (a *Advice) section() error {
	a.SystemPartition = map[string]any{}
	present, err := kubeletconfig.Load(hostfs.FS("/"))
	if err != nil {
		a.warn("the present section is not valid, and not a part of the recommendation: %v", err)
	} else if len(present.Section) > 0 {
		if err := json.Unmarshal(present.Section, &a.SystemPartition); err != nil {
			a.warn("the present section is not valid, and not a part of the recommendation: %v", err)
		}
	}
	if a.SystemPartition == nil {
		a.SystemPartition = map[string]any{}
	}
	if a.SystemPartition[fieldNamespaces] == nil {
		a.SystemPartition[fieldNamespaces] = []string{"kube-system"}
		a.warn("there is no section with namespaces: the recommendation has kube-system")
	}
	a.SystemPartition[fieldLimit] = quantity(a.MemoryLimit.Bytes)
	a.SystemPartition[fieldHard] = map[string]string{signal: quantity(a.EvictionHard.Bytes)}
	text, err := a.document()
	if err != nil {
		return err
	}
	if _, err := config.LoadWith("/", "the recommendation", text); err != nil {
		for _, problem := range config.Problems(err) {
			a.warn("try would refuse it: %v", problem)
		}
	}
	return nil
}

// document returns the configuration with the section alone.
func (a *Advice) document() ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": kubeletconfig.APIVersion, "kind": kubeletconfig.Kind, kubeletconfig.SectionField: a.SystemPartition,
	})
}

// quantity returns bytes, which are whole mebibytes, as a quantity.
func quantity(bytes uint64) string { return fmt.Sprintf("%dMi", bytes>>20) }
