// Package promapi serves the part of the HTTP API of a Prometheus that partition-monitor recommend
// asks: the engine is Prometheus' own, over samples of a test.
package promapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// NewEngine returns an engine with the limits of a Prometheus whose configuration says nothing.
func NewEngine() *promql.Engine {
	const maxSamples, timeout = 50_000_000, 2 * time.Minute
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: maxSamples, Timeout: timeout, Parser: parser.NewParser(parser.Options{}),
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
}

// Handler returns the API of a Prometheus whose clock stands at now.
func Handler(engine *promql.Engine, from storage.Queryable, now time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query", func(w http.ResponseWriter, r *http.Request) {
		value, err := query(r, engine, from, now)
		body := map[string]any{"status": "success", "data": value}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			kind := "execution"
			if errors.As(err, new(parser.ParseErrors)) {
				kind = "bad_data"
			}
			body = map[string]any{"status": "error", "errorType": kind, "error": err.Error()}
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	})
	return mux
}

func query(r *http.Request, engine *promql.Engine, from storage.Queryable, now time.Time) (any, error) {
	q, err := engine.NewInstantQuery(r.Context(), from, nil, r.FormValue("query"), now)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	out := q.Exec(r.Context())
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
