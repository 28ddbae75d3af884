package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"nodepartition/internal/bytesize"
)

const (
	// refreshInterval is the time after which a browser asks for the page again.
	refreshInterval = 15 * time.Second
	// pageAge is the time for which a page is served again: a page of a node with many pods takes
	// milliseconds, and whoever may connect may ask for it as often as they like.
	pageAge = 2 * time.Second
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
}

// ServeHTTP implements http.Handler. With refresh=off in the query the page stays as it is.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := p.text(r.URL.Query().Get("refresh") != "off")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text) // fails if the client is gone
}

// text returns the page, which is made if the last one is too old.
func (p *page) text(refreshes bool) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	//guard: a page is made once in two seconds
	if p.texts != nil && now.Sub(p.made) < pageAge {
		return p.texts[refreshes], nil
	}
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
