package web

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// keptAge is the time between two answers that are made, when many are asked for: to make one
	// takes milliseconds, and whoever may connect may ask as often as they like.
	keptAge = time.Second
	// keptBurst answers are made without that time between them.
	keptBurst = 5
)

// kept makes an answer, and serves the last one again to those who ask too often. So clients that
// do not read share a few texts, and keep no other from being served.
type kept struct {
	// handler makes the answer. It gets a request without headers, apart from encoding.
	handler http.Handler
	// encoding is the Accept-Encoding of that request.
	encoding string
	often    *rate.Limiter

	mu   sync.Mutex
	last *answer
}

func keep(handler http.Handler, encoding string) *kept {
	return &kept{handler: handler, encoding: encoding, often: rate.NewLimiter(rate.Every(keptAge), keptBurst)}
}

// ServeHTTP implements http.Handler.
func (k *kept) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	made := k.answer(r)
	maps.Copy(w.Header(), made.header)
	w.WriteHeader(made.status)
	_, _ = w.Write(made.Bytes()) // fails if the client is gone
}

func (k *kept) answer(r *http.Request) *answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	//guard: answers that are asked for too often are not made
	if k.last != nil && !k.often.Allow() {
		return k.last
	}
	// A client that is gone must not leave others with half an answer.
	ask := r.Clone(context.WithoutCancel(r.Context()))
	ask.Method, ask.Header = http.MethodGet, http.Header{"Accept-Encoding": {k.encoding}}
	made := &answer{header: http.Header{}, status: http.StatusOK}
	k.handler.ServeHTTP(made, ask)
	k.last = made
	return made
}

// answer records an answer.
type answer struct {
	bytes.Buffer // the body
	header       http.Header
	status       int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// encoded serves an answer with gzip to those who accept it.
func encoded(handler http.Handler) http.Handler {
	plain, compressed := keep(handler, "identity"), keep(handler, "gzip")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			compressed.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}
