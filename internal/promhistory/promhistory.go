// Package promhistory reads the history of nodes from a Prometheus that scrapes partition-monitor:
// for each node the hours of two weeks, in the form of samples of the history on a disk.
//
// It asks for a few nodes and days at a time, one request after another: what all of thousands of
// nodes have in two weeks is more than a Prometheus gives in one answer.
package promhistory

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// Options selects what is read, and from where.
type Options struct {
	// URL is the address of the Prometheus, and HTTPConfig the file of its HTTP client, "" for none.
	URL, HTTPConfig string
	// By is the label whose values are the shapes.
	By string
	// Match has more matchers of PromQL, such as cluster="production".
	Match string
	// Partition is the partition that is read.
	Partition unitname.PartitionName
	// Span is the time before now that is read, in whole hours.
	Span time.Duration
}

// Node is a node with its hours.
type Node struct {
	// Name and Shape are the values of the labels. A node without the label has the shape "".
	Name, Shape string
	// Hours has a sample for each hour of which something is known, the oldest first. Its time is the
	// start of the hour.
	Hours []samples.Sample
	// LeastThreshold in bytes is the least threshold for the CPUs of the node, and NodeBytes its
	// memory. 0 means that it is not known.
	LeastThreshold, NodeBytes uint64
}

const (
	hour = time.Hour
	// maxNodes and maxHours bound a query, which is evaluated in the Prometheus for as many series and
	// times, and answered with as many values.
	maxNodes = 100
	maxHours = 48
	// maxSeries bounds the answer with the names of all nodes.
	maxSeries = 100_000
	// labelNode has the name of the node, and labelCluster the cluster, by which nodes of one name are
	// told apart.
	labelNode    = "instance"
	labelCluster = "cluster"
)

// reader reads nodes from one Prometheus.
type reader struct {
	api     v1.API
	options Options
	// address is the URL without a password, for messages.
	address string
	queries []query
	// shapes has the shape of each node, by its cluster and name alone: "" if it had several.
	shapes map[target]string
	// from and to bound the hours that are asked for, by the clock of the Prometheus.
	from, to time.Time
	doubts   []string
}

// names are the names of labels and of partitions, which are written into queries.
var names = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Check returns an error that begins with the flag of an option that is not valid.
func (o Options) Check() error {
	address, err := url.Parse(o.URL)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		return errors.New("prometheus: want an address such as http://prometheus:9090")
	case !names.MatchString(o.By):
		return fmt.Errorf("by=%s: want a label such as instance_type", o.By)
	case !names.MatchString(string(o.Partition)):
		return fmt.Errorf("partition=%s: want the name of a partition", o.Partition)
	}
	return nil
}

// Nodes calls each with every node that had the partition, and the samples of all its hours, until
// ctx ends. The nodes of a shape come together. Nodes returns the warnings of the Prometheus: with
// one, its answers may not be complete. An error says what the Prometheus does not have.
func Nodes(ctx context.Context, o Options, each func(Node)) (doubts []string, err error) {
	r, err := newReader(o)
	if err != nil {
		return nil, err
	}
	err = r.nodes(ctx, each)
	return r.doubts, err
}

// newReader returns a reader for options that Check accepts. It asks for nothing.
func newReader(o Options) (*reader, error) {
	address, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	api, err := client(o)
	if err != nil {
		return nil, err
	}
	return &reader{
		api: api, options: o, address: address.Redacted(), queries: queries(o), shapes: map[target]string{},
	}, nil
}

func (r *reader) nodes(ctx context.Context, each func(Node)) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	r.to = now.Truncate(hour)
	r.from = r.to.Add(-r.options.Span.Truncate(hour))
	targets, err := r.targets(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(targets, maxNodes) {
		if err := r.chunk(ctx, chunk, each); err != nil {
			return err
		}
	}
	return nil
}

// target is a node by its labels.
type target struct{ cluster, name, shape string }

// String returns the name for people: the cluster is in front of it if there is one.
func (t target) String() string {
	if t.cluster == "" {
		return t.name
	}
	return t.cluster + "/" + t.name
}

// now returns the time by the clock of the Prometheus: this machine's may be another.
func (r *reader) now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := r.ask(ctx, "its time", func(ctx context.Context) (v1.Warnings, error) {
		value, doubts, err := r.api.Query(ctx, "time()", time.Time{})
		if scalar, ok := value.(*model.Scalar); ok && err == nil {
			now = time.UnixMilli(int64(float64(scalar.Value) * 1000)).UTC()
		} else if err == nil {
			err = errors.New("the answer is not a number: want the address of a Prometheus")
		}
		return doubts, err
	})
	return now, err
}

// targets lists the nodes that had the partition, by shape. It reads the index of the Prometheus,
// and no sample.
func (r *reader) targets(ctx context.Context) ([]target, error) {
	selector := r.fill(`nodepartition_memory_used_peak_bytes{partition="PARTITION"MATCH}`, nil)
	var sets []model.LabelSet
	err := r.ask(ctx, "the names of the nodes", func(ctx context.Context) (v1.Warnings, error) {
		var err error
		var doubts v1.Warnings
		sets, doubts, err = r.api.Series(ctx, []string{selector}, r.from, r.to, v1.WithLimit(maxSeries))
		return doubts, err
	})
	if err != nil {
		return nil, err
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s has no series %s in the last %s: want a scrape of partition-monitor (docs/fleet-figures.md), "+
			"with that series in its relabel list", r.address, selector, r.options.Span.Truncate(hour))
	}
	seen := map[target]bool{}
	labelled := false
	for _, set := range sets {
		t := r.targetOf(set)
		seen[t] = true
		if t.shape != "" {
			labelled = true
			of := target{t.cluster, t.name, ""}
			//guard: the time before a label was attached belongs to none of two shapes
			if before, ok := r.shapes[of]; ok && before != t.shape {
				r.shapes[of] = ""
			} else {
				r.shapes[of] = t.shape
			}
		}
	}
	if !labelled {
		return nil, fmt.Errorf("no series %s in %s has the label %s, and nodes of different shapes need different sections: attach it in the scrape "+
			"configuration (docs/fleet-figures.md), or name another with --by: %s", selector, r.address, r.options.By, labelNames(sets[0]))
	}
	var list []target
	for t := range seen {
		// The time before the label was attached belongs to the only shape that the node has had.
		//guard: the time before a label was attached belongs to the only shape of the node
		if t.shape == "" && r.shapes[t] != "" {
			continue
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b target) int {
		return strings.Compare(a.shape+"\x00"+a.String(), b.shape+"\x00"+b.String())
	})
	return list, nil
}

// labelNames lists the labels of a series that may tell shapes apart.
func labelNames(set model.LabelSet) string {
	var names []string
	for name := range set {
		if name != model.MetricNameLabel && name != labelNode && name != "partition" {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return "it has " + strings.Join(names, ", ")
}

// chunk reads some nodes. If the Prometheus refuses a query because it is too much, each half is
// read by itself.
func (r *reader) chunk(ctx context.Context, targets []target, each func(Node)) error {
	nodes := map[target]*gathered{}
	for _, t := range targets {
		nodes[t] = &gathered{hours: map[int64]*figures{}}
	}
	for from := r.from; from.Before(r.to); from = from.Add(maxHours * hour) {
		to := from.Add(maxHours * hour)
		if to.After(r.to) {
			to = r.to
		}
		err := r.span(ctx, targets, nodes, from, to)
		//guard: a Prometheus that allows less is asked for less
		if err != nil && len(targets) > 1 && tooMuch(err) {
			middle := len(targets) / 2
			if err := r.chunk(ctx, targets[:middle], each); err != nil {
				return err
			}
			return r.chunk(ctx, targets[middle:], each)
		}
		if err != nil {
			return err
		}
	}
	for _, t := range targets {
		each(nodes[t].node(t))
	}
	return nil
}

// span asks all queries for some nodes and hours.
func (r *reader) span(ctx context.Context, targets []target, nodes map[target]*gathered, from, to time.Time) error {
	killed := false
	for _, q := range r.queries {
		if q.name == "hard" && !killed {
			continue // the threshold matters where the kernel has killed
		}
		var matrix model.Matrix
		err := r.ask(ctx, q.name, func(ctx context.Context) (v1.Warnings, error) {
			// The last millisecond of an hour: a sample at a full hour belongs to one hour.
			at := v1.Range{Start: from.Add(hour - time.Millisecond), End: to.Add(-time.Millisecond), Step: hour}
			value, doubts, err := r.api.QueryRange(ctx, r.fill(q.expr, targets), at, v1.WithTimeout(queryTimeout))
			matrix, _ = value.(model.Matrix)
			return doubts, err
		})
		if err != nil {
			return err
		}
		for _, series := range matrix {
			if g := r.find(nodes, series.Metric); g != nil {
				g.add(q.name, series.Values)
				killed = killed || q.name == "kills"
			}
		}
	}
	return nil
}

// targetOf returns the node of a series as its labels have it.
func (r *reader) targetOf(labels model.LabelSet) target {
	return target{string(labels[labelCluster]), string(labels[labelNode]), string(labels[model.LabelName(r.options.By)])}
}

// find returns the node of a series. The time before the label was attached belongs to the only
// shape that the node has had.
func (r *reader) find(nodes map[target]*gathered, labels model.Metric) *gathered {
	t := r.targetOf(model.LabelSet(labels))
	if t.shape == "" {
		t.shape = r.shapes[t]
	}
	return nodes[t]
}
