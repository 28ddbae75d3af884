package recommend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/node"
	"nodepartition/internal/oneline"
	"nodepartition/internal/promhistory"
	"nodepartition/internal/recommend"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// FleetOptions holds the flags of the command recommend for several nodes.
type FleetOptions struct {
	// Folders has the histories, one for each node. Prometheus is read instead if its URL is set.
	Folders    []Folder
	Prometheus promhistory.Options
	// Partition is the partition to compute figures for; "" means the system partition.
	Partition unitname.PartitionName
	// Since is the time from which on samples of folders count.
	Since time.Time
	// ShapeOptions holds the rest.
	recommend.ShapeOptions
}

// Folder is the history of a node. Shape is the group of nodes that it belongs to, "" for those
// with the same CPUs and memory.
type Folder struct{ Shape, Path string }

// FleetAdvice holds the output of the command recommend for several nodes. Its JSON is for scripts:
// new versions add fields and do not change them.
type FleetAdvice struct {
	// Partition is the partition that the figures are for, and Slice its slice.
	Partition unitname.PartitionName `json:"partition"`
	Slice     string                 `json:"slice"`
	// Shapes has a recommendation for each shape, in the order of their names.
	Shapes   []shapeAdvice `json:"shapes"`
	Warnings []string      `json:"warnings"`
}

// shapeAdvice is the advice for one shape.
type shapeAdvice struct {
	recommend.ForShape
	// Section is the recommended section, nil without one.
	Section map[string]any `json:"section,omitempty"`
}

// ReadFleet computes the recommendations until ctx ends. It returns an error if a history cannot be
// read, or a Prometheus has none. A shape without a section that can be applied says why.
func ReadFleet(ctx context.Context, o FleetOptions) (FleetAdvice, error) {
	shapes := shapes{}
	var warnings []string
	var err error
	if o.Prometheus.URL != "" {
		warnings, err = o.scraped(ctx, shapes)
	} else {
		warnings, err = o.recorded(ctx, shapes)
	}
	if err != nil {
		return FleetAdvice{}, err
	}
	shown := node.Shown(o.Partition)
	a := FleetAdvice{Partition: shown, Slice: shown.Slice(), Shapes: []shapeAdvice{}, Warnings: warnings}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		a.Shapes = append(a.Shapes, o.shape(ctx, shapes[name]))
	}
	return a, ctx.Err()
}

// shapes holds the nodes by the names of their shapes.
type shapes map[string]*recommend.Shape

func (s shapes) add(h recommend.NodeHistory) {
	if s[h.Shape] == nil {
		s[h.Shape] = recommend.NewShape(h.Shape)
	}
	s[h.Shape].Add(h)
}

// scraped reads a Prometheus.
func (o *FleetOptions) scraped(ctx context.Context, to shapes) (warnings []string, err error) {
	var without []string
	doubts, err := promhistory.Nodes(ctx, o.Prometheus, func(n promhistory.Node) {
		if n.Shape == "" {
			without = append(without, n.Name)
			return
		}
		to.add(recommend.NodeHistory(n))
	})
	if err != nil {
		return nil, err
	}
	warnings = []string{}
	if len(without) > 0 {
		warnings = append(warnings, fmt.Sprintf("left out: %d nodes without the label %s: %s",
			len(without), o.Prometheus.By, someOf(without)))
	}
	if len(doubts) > 0 {
		o.Doubt = "the answers of the Prometheus may not be complete: " + strings.Join(doubts, "; ")
		warnings = append(warnings, o.Doubt)
	}
	return warnings, nil
}

// recorded reads the histories in the folders.
func (o *FleetOptions) recorded(ctx context.Context, to shapes) ([]string, error) {
	broken := 0
	names := map[string]bool{}
	for _, folder := range o.Folders {
		name := folder.name()
		if names[name] {
			name = folder.Path
		}
		names[name] = true
		h, err := node.ReadHistory(ctx, folder.Path, o.Partition)
		if err != nil {
			return nil, err
		}
		broken += h.Broken
		to.add(o.history(name, folder.Shape, h))
	}
	if broken > 0 {
		return []string{fmt.Sprintf("%d lines of the histories are broken, and left out", broken)}, nil
	}
	return []string{}, nil
}

// name returns the name of the node of a folder: the folder's, or the name of the folder above one
// that is called history.
func (f Folder) name() string {
	path := filepath.Clean(f.Path)
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if filepath.Base(path) == filepath.Base(node.HistoryDir) {
		path = filepath.Dir(path)
	}
	return filepath.Base(path)
}

// history returns what a folder has.
func (o *FleetOptions) history(name, shape string, h samples.History) recommend.NodeHistory {
	list := slices.DeleteFunc(h.Coarse(), func(s samples.Sample) bool {
		return !s.Time.After(o.Since) || s.Time.Before(before)
	})
	n := recommend.NodeHistory{Name: name, Shape: shape, Hours: recommend.Hours(list)}
	size := "unknown size"
	for _, s := range slices.Backward(list) {
		if has := s.Node; has != nil {
			n.NodeBytes, n.LeastThreshold = has.MemoryBytes, node.LeastThreshold(*has)
			const gibi = 1 << 30
			size = fmt.Sprintf("%d CPUs, %dGi", has.CPUs, (has.MemoryBytes+gibi/2)/gibi)
			break
		}
	}
	if shape == "" {
		n.Shape = size
	}
	return n
}

// shape computes the recommendation for one shape.
func (o *FleetOptions) shape(ctx context.Context, s *recommend.Shape) shapeAdvice {
	a := shapeAdvice{ForShape: s.Recommend(ctx, o.ShapeOptions)}
	if len(a.NoSection) > 0 && !o.Force || a.MemoryLimit == nil {
		return a
	}
	a.Section = map[string]any{
		fieldLimit: quantity(a.MemoryLimit.Bytes),
		fieldHard:  map[string]string{signal: quantity(a.EvictionHard.Bytes)},
	}
	if isSystem(node.Shown(o.Partition)) {
		a.Section[fieldNamespaces] = []string{"kube-system"}
	}
	return a
}

// document returns the configuration with the section of a shape.
func (a *FleetAdvice) document(s shapeAdvice) ([]byte, error) {
	fields := map[string]any{"apiVersion": kubeletconfig.APIVersion, "kind": kubeletconfig.Kind}
	if isSystem(a.Partition) {
		fields[kubeletconfig.SectionField] = s.Section
	} else {
		fields[kubeletconfig.WorkloadsField] = map[unitname.PartitionName]any{a.Partition: s.Section}
	}
	return yaml.Marshal(fields)
}

// AllWarnings lists the warnings of the advice and of its shapes.
func (a *FleetAdvice) AllWarnings() []string {
	list := slices.Clone(a.Warnings)
	for i := range a.Shapes {
		for _, warning := range a.Shapes[i].Warnings {
			list = append(list, a.Shapes[i].Shape+": "+warning)
		}
	}
	return list
}

// Verdict returns an error if a shape has no section, or one that would evict at once.
func (a *FleetAdvice) Verdict() error {
	var problems []string
	for i := range a.Shapes {
		switch s := &a.Shapes[i]; {
		case s.Section == nil:
			problems = append(problems, fmt.Sprintf("no section for %s: %s", s.Shape, strings.Join(s.NoSection, "; ")))
		case s.EvictsAtOnce:
			problems = append(problems, fmt.Sprintf("the section for %s would evict at once: see the warnings", s.Shape))
		}
	}
	if len(a.Shapes) == 0 {
		problems = append(problems, "no node has a shape: see the warnings")
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(oneline.Terminal(strings.Join(problems, "\n")))
}

// someOf lists the first names of many.
func someOf(names []string) string {
	const most = 5
	names = slices.Sorted(slices.Values(names))
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += " and others"
	}
	return text
}
