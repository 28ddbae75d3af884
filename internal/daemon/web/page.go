package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/samples"
)

const (
	// refreshInterval is the time after which a browser asks for the page again.
	refreshInterval = 15 * time.Second
	// pageAge is the time for which a page is served again: a page of a node with many pods takes
	// milliseconds, and whoever may connect may ask for it as often as they like.
	pageAge = 2 * time.Second
	// historyAge is the same for the history, which gets a sample each minute.
	historyAge = time.Minute
	// historyPatience is the time that a page waits for the history.
	historyPatience = 2 * time.Second
	// historyShown is the part of the history that the page shows.
	historyShown = 6 * time.Hour
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string

	// pageTemplate is parsed for the first page. Most runs of the program serve none.
	pageTemplate = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("page").Funcs(template.FuncMap{"bytes": bytesize.Text}).Parse(pageText))
	})
	// policy forbids a browser to load anything. The style is part of the page, and the policy has its
	// hash.
	policy = fmt.Sprintf(
		"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hash(styleText),
	)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page serves the page for people. It keeps the last one for pageAge.
type page struct {
	Options

	mu sync.Mutex
	// made is the time of texts, which has the page by whether it refreshes.
	made  time.Time
	texts map[bool][]byte
	past  past
	// reading receives the history that is being read; nil if none is.
	reading chan past
}

// past is the history, as it was read last.
type past struct {
	read    time.Time
	history samples.History
	err     error
}

// ServeHTTP implements http.Handler. With refresh=off in the query the page stays as it is.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := p.text(r.Context(), r.URL.Query().Get("refresh") != "off")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text) // fails if the client is gone
}

// text returns the page, which is made if the last one is too old.
func (p *page) text(ctx context.Context, refreshes bool) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	//guard: a page is made once in two seconds
	if p.texts != nil && now.Sub(p.made) < pageAge {
		return p.texts[refreshes], nil
	}
	p.readPast(ctx, now)
	now = time.Now()
	v := p.view(now)
	texts := map[bool][]byte{}
	for _, refreshes := range []bool{true, false} {
		v.Refresh = 0
		if refreshes {
			v.Refresh = int(refreshInterval.Seconds())
		}
		var text bytes.Buffer // so that an error is found before the status is written
		if err := pageTemplate().Execute(&text, v); err != nil {
			return nil, err
		}
		texts[refreshes] = text.Bytes()
	}
	p.made, p.texts = now, texts
	return texts[refreshes], nil
}

// errSlow is the error of a history that is still being read.
var errSlow = errors.New("the disk does not answer")

// readPast reads the history, if one is kept and the last reading is too old. A page waits for it
// at most historyPatience. Until the disk answers, it is not asked again, and no other page waits.
func (p *page) readPast(ctx context.Context, now time.Time) {
	slow := func() {
		if now.Sub(p.past.read) > 2*historyAge {
			p.past.err = errSlow
		}
	}
	if p.History == nil {
		return
	}
	if p.reading != nil {
		select {
		case p.past = <-p.reading: // late, and perhaps too old by now
			p.reading = nil
		default:
			slow()
			return
		}
	}
	if !p.past.read.IsZero() && now.Sub(p.past.read) < historyAge {
		return
	}
	p.reading = make(chan past, 1)
	// A client that is gone must not leave others without a history.
	go func(ctx context.Context, done chan<- past) {
		history, err := p.History(ctx, now.Add(-historyShown))
		done <- past{now, history, err}
		//guard: a client that is gone leaves others their history
	}(context.WithoutCancel(ctx), p.reading)
	select {
	case p.past = <-p.reading:
		p.reading = nil
	//guard: one page waits for a disk that does not answer
	case <-time.After(historyPatience):
		slow()
	}
}
