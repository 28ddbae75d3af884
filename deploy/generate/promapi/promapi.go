// Package promapi serves the part of the HTTP API of a Prometheus that partition-monitor recommend
// asks, for tests: the engine is Prometheus' own, over samples of a test.
package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// NewEngine returns an engine with the limits of a Prometheus whose configuration says nothing.
func NewEngine() *promql.Engine {
	const maxSamples, timeout = 50_000_000, 2 * time.Minute
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: maxSamples, Timeout: timeout, Parser: newParser(),
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// Handler returns the API. now is the clock of the Prometheus. done, if it is not nil, is called
// with each query and the time that it took.
func Handler(
	engine *promql.Engine, from storage.Queryable, now func() time.Time, done func(string, time.Duration),
) http.Handler {
	s := server{engine, from, now, done}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query", s.answer(s.query))
	return mux
}

type server struct {
	engine *promql.Engine
	from   storage.Queryable
	now    func() time.Time
	done   func(string, time.Duration)
}

// answer writes what a function returns as Prometheus does.
func (s server) answer(of func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		data, err := of(r)
		if s.done != nil {
			s.done(r.FormValue("query"), time.Since(begin))
		}
		body := map[string]any{"status": "success", "data": data}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			kind := "execution"
			if errors.As(err, new(parser.ParseErrors)) {
				kind = "bad_data"
			}
			body = map[string]any{"status": "error", "errorType": kind, "error": err.Error()}
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		text, err := json.Marshal(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text) // the client may be gone
	}
}

func (s server) query(r *http.Request) (any, error) {
	at := s.now()
	if text := r.FormValue("time"); text != "" {
		var err error
		if at, err = moment(text); err != nil {
			return nil, err
		}
	}
	q, err := s.engine.NewInstantQuery(r.Context(), s.from, nil, r.FormValue("query"), at)
	return result(r.Context(), q, err)
}

// result runs a query that err does not prevent.
func result(ctx context.Context, q promql.Query, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer q.Close()
	out := q.Exec(ctx)
	if out.Err != nil {
		return nil, out.Err
	}
	// The values belong to the query, which is closed.
	text, err := json.Marshal(out.Value)
	if string(text) == "null" {
		text = []byte("[]") // as Prometheus writes it
	}
	return map[string]any{"resultType": out.Value.Type(), "result": json.RawMessage(text)}, err
}

// moment parses seconds since 1970.
func moment(text string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
}
