package promhistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
)

const (
	// queryTimeout bounds the time in which the Prometheus works on a query, and requestTimeout the
	// time for which an answer is awaited.
	queryTimeout   = 50 * time.Second
	requestTimeout = time.Minute
	// maxBody bounds an answer in bytes. One for maxNodes and maxHours has half a megabyte.
	maxBody = 64 << 20
)

// client returns a client with the settings of the file, in the form of promtool's
// --http.config.file.
func client(o Options) (v1.API, error) {
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

// bounded bounds the bodies of answers: the API's client reads them whole.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxBody}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	//guard: an answer is read up to a bound
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxBody>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// ask asks once, for at most requestTimeout, and remembers what the Prometheus warns of.
func (r *reader) ask(ctx context.Context, what string, do func(context.Context) (v1.Warnings, error)) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	doubts, err := do(limited)
	for _, doubt := range doubts {
		// Some versions put what they say about a query among the warnings.
		//guard: what a Prometheus says about a query does not make its answer incomplete
		if about := strings.HasPrefix(doubt, "PromQL info"); !about && !slices.Contains(r.doubts, doubt) {
			r.doubts = append(r.doubts, doubt)
		}
	}
	var answered *v1.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answered):
		return fmt.Errorf("%s does not tell %s: %w", r.address, what, explained{answered})
	}
	return fmt.Errorf("%s does not tell %s: %w", r.address, what, err)
}

// explained is an error of the Prometheus with the reason that its body has.
type explained struct{ err *v1.Error }

// Error returns the reason, and the beginning of the body of a server that does not speak the API.
func (e explained) Error() string {
	const most = 200
	detail := strings.TrimSpace(e.err.Detail)
	var answer struct {
		Error string `json:"error"`
	}
	switch {
	case detail == "":
		return e.err.Msg
	case json.Unmarshal([]byte(detail), &answer) == nil && answer.Error != "":
		return answer.Error
	}
	return e.err.Msg + ": " + detail[:min(len(detail), most)]
}

// Unwrap returns the error of the API.
func (e explained) Unwrap() error { return e.err }

// tooMuch reports whether a Prometheus has refused a query that may do for fewer nodes.
func tooMuch(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var answered *v1.Error
	if !errors.As(err, &answered) {
		return false
	}
	// The client does not read the body of an answer 503.
	late := answered.Type == v1.ErrServer && strings.Contains(answered.Detail, `"`+string(v1.ErrTimeout)+`"`)
	return late || answered.Type == v1.ErrTimeout || answered.Type == v1.ErrExec
}
