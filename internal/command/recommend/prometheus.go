package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
)

// FleetOptions holds the flags of the command recommend for many nodes.
type FleetOptions struct {
	// URL is the address of the Prometheus, and HTTPConfig the file of its HTTP client, "" for none.
	URL, HTTPConfig string
	// By is the label whose values are the shapes of nodes, and Match has more matchers of PromQL.
	By, Match string
	// Partition is the partition to compute the limit of; "" means the system partition.
	Partition partition.Name
}

// FleetAdvice is the output of the command recommend for many nodes. Its JSON is for scripts: new
// versions add fields and do not change them.
type FleetAdvice struct {
	Partition partition.Name `json:"partition"`
	Slice     string         `json:"slice"`
	Shapes    []Shape        `json:"shapes"`
	Warnings  []string       `json:"warnings"`
}

// Shape is the advice for the nodes of one shape: the limit of the node that needs most. Each node
// has computed its own, as recommend does there.
type Shape struct {
	Shape string `json:"shape"`
	// LimitBytes is the limit of Node, and MostBytes does for nine in ten of the nodes.
	LimitBytes uint64 `json:"limitBytes"`
	Node       string `json:"node"`
	MostBytes  uint64 `json:"mostBytes"`
	// Nodes is the number of nodes with a recommendation, and half of them have measured for
	// MeasuredSeconds or longer.
	Nodes           int     `json:"nodes"`
	MeasuredSeconds float64 `json:"measuredSeconds"`
}

// measured returns how long half of the nodes have measured, or longer.
func (s *Shape) measured() time.Duration {
	return time.Duration(s.MeasuredSeconds * float64(time.Second))
}

const (
	requestTimeout = time.Minute
	// maxBody bounds an answer in bytes. It has a number for each shape.
	maxBody = 16 << 20
	// limits is what the nodes recommend. As in recording.yaml, nodes with less than a day count only
	// where there are no others: the margin of new nodes does not size the others.
	limits   = `nodepartition_memory_recommended_bytes{MATCH}`
	counting = `(` + limits + ` and nodepartition_memory_measured_seconds >= 86400 or on (BY) ` + limits + `)`
	// The queries: the node of each shape with the largest limit, what does for nine in ten, their
	// number, and how long they have measured.
	ofMost   = `topk by (BY) (1, ` + counting + `)`
	mostly   = `quantile by (BY) (0.9, ` + counting + `)`
	nodes    = `count by (BY) ` + counting
	measured = `quantile by (BY) (0.5, nodepartition_memory_measured_seconds{MATCH} and ` + counting + `)`
)

// labelNames matches the names of labels, which are written into queries.
var labelNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Check returns an error that begins with the flag of an option that is not valid.
func (o FleetOptions) Check() error {
	address, err := url.Parse(o.URL)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		return errors.New("prometheus: want an address such as http://prometheus:9090")
	case !labelNames.MatchString(o.By):
		return fmt.Errorf("by=%s: want a label such as instance_type", o.By)
	case o.Partition != "":
		if err := o.Partition.Check(); err != nil {
			return fmt.Errorf("partition=%s: %w", o.Partition, err)
		}
	}
	return nil
}

// ReadFleet reads what the nodes recommend from a Prometheus. An error says what that does not
// have.
func ReadFleet(ctx context.Context, o FleetOptions) (FleetAdvice, error) {
	o.Partition = cmp.Or(o.Partition, partition.First)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := o.client()
	if err != nil {
		return FleetAdvice{}, err
	}
	answers := map[string]map[string]*model.Sample{}
	for _, query := range []string{ofMost, mostly, nodes, measured} {
		if answers[query], err = o.ask(ctx, client, query); err != nil {
			return FleetAdvice{}, err
		}
	}
	largest := answers[ofMost]
	if len(largest) == 0 {
		return FleetAdvice{}, fmt.Errorf("%s has no nodepartition_memory_recommended_bytes of partition %s: want a scrape of partition-monitor "+
			"(docs/fleet-figures.md), with that series in its relabel list, and nodes that have measured %s", o.address(), o.Partition, sizing.Text(sizing.LeastLength))
	}
	a := FleetAdvice{Partition: o.Partition, Slice: o.Partition.Slice(), Shapes: []Shape{}, Warnings: []string{}}
	if _, without := largest[""]; without {
		if len(largest) == 1 {
			return FleetAdvice{}, fmt.Errorf("no node in %s has the label %s, and nodes of different shapes need different sections: attach it in the scrape "+
				"configuration (docs/fleet-figures.md), or name another with --by", o.address(), o.By)
		}
		delete(largest, "")
		a.Warnings = append(a.Warnings, "left out: nodes without the label "+o.By)
	}
	for _, shape := range slices.Sorted(maps.Keys(largest)) {
		of, most, count, length := largest[shape], answers[mostly][shape], answers[nodes][shape], answers[measured][shape]
		//guard: the last node of a shape goes between two queries
		if most == nil || count == nil {
			continue
		}
		s := Shape{
			Shape: shape, LimitBytes: uint64(of.Value), MostBytes: uint64(most.Value), Nodes: int(count.Value),
			Node: strings.TrimPrefix(string(of.Metric["cluster"]+"/"+of.Metric["instance"]), "/"),
		}
		const slack = "what happens once a week may not be in the figures, and with a week there is less slack"
		if length == nil {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: how long was measured is not known, because %s lacks "+
				"nodepartition_memory_measured_seconds: %s", shape, o.address(), slack))
		} else if s.MeasuredSeconds = float64(length.Value); s.measured() < week {
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: half of the nodes have measured %s or less: %s",
				shape, sizing.Text(s.measured()), slack))
		}
		a.Shapes = append(a.Shapes, s)
	}
	return a, nil
}

// document returns the configuration with the section of a shape. The default threshold follows the
// limit.
func (a *FleetAdvice) document(s *Shape) ([]byte, error) {
	section := map[string]any{fieldLimit: quantity(s.LimitBytes)}
	fields := map[string]any{"apiVersion": kubeletconfig.APIVersion, "kind": kubeletconfig.Kind}
	if a.Partition == partition.First {
		section[fieldNamespaces] = []string{"kube-system"}
		fields[kubeletconfig.SectionField] = section
	} else {
		fields[kubeletconfig.WorkloadsField] = map[partition.Name]any{a.Partition: section}
	}
	return yaml.Marshal(fields)
}

// ask returns the answer to a query, by shape.
func (o *FleetOptions) ask(ctx context.Context, client v1.API, query string) (map[string]*model.Sample, error) {
	match := strings.TrimSuffix(fmt.Sprintf("partition=%q, %s", o.Partition, o.Match), ", ")
	query = strings.NewReplacer("MATCH", match, "BY", o.By).Replace(query)
	value, doubts, err := client.Query(ctx, query, time.Time{})
	if err != nil {
		var answered *v1.Error
		if errors.As(err, &answered) && answered.Detail != "" {
			err = fmt.Errorf("%w: %.200s", err, strings.TrimSpace(answered.Detail))
		}
		return nil, fmt.Errorf("%s does not answer %s: %w", o.address(), query, err)
	}
	// Some versions put what they say about a query among the warnings.
	doubts = slices.DeleteFunc(doubts, func(doubt string) bool { return strings.HasPrefix(doubt, "PromQL info") })
	if len(doubts) > 0 {
		return nil, fmt.Errorf("the answer of %s may not be complete: %s", o.address(), strings.Join(doubts, "; "))
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the answer of %s is no list of values: want the address of a Prometheus", o.address())
	}
	shapes := map[string]*model.Sample{}
	for _, sample := range vector {
		shapes[string(sample.Metric[model.LabelName(o.By)])] = sample
	}
	return shapes, nil
}

// address returns the URL without a password, for messages.
func (o *FleetOptions) address() string {
	address, err := url.Parse(o.URL)
	if err != nil {
		return ""
	}
	return address.Redacted()
}

// client returns a client with the settings of the file, in the form of promtool's
// --http.config.file.
func (o *FleetOptions) client() (v1.API, error) {
	settings := &config.HTTPClientConfig{FollowRedirects: true, EnableHTTP2: true}
	if o.HTTPConfig != "" {
		var err error
		if settings, _, err = config.LoadHTTPConfigFile(o.HTTPConfig); err != nil {
			return nil, fmt.Errorf("%s: %w", o.HTTPConfig, err)
		}
	}
	transport, err := config.NewRoundTripperFromConfig(*settings, "partition-monitor")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.HTTPConfig, err)
	}
	c, err := api.NewClient(api.Config{Address: o.URL, RoundTripper: bounded{transport}})
	if err != nil {
		return nil, err
	}
	return v1.NewAPI(c), nil
}

// bounded bounds the bodies of answers, which the client reads whole.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}
