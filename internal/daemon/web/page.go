package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// This file draws the state of a node for people: the same values and words as the command
// status writes, with a picture of the memory of each partition and of its last day.

const (
	// refreshInterval is the number of seconds after which a browser asks for the page again.
	refreshInterval = 15
	// shownRows of a table are shown at once, and mostRows at most.
	shownRows = 10
	mostRows  = 300
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string

	// parsed is the template, for the first page. Most runs of the program serve none.
	parsed = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("page").Funcs(template.FuncMap{
			"bytes": text.Bytes, "clean": clean, "class": class, "fold": fold, "scale": scale,
			"largest": func(limit *uint64, used uint64) uint64 {
				if limit == nil {
					return used
				}
				return max(*limit, used)
			},
			"below":   func(limit *uint64, left uint64) uint64 { return *limit - min(left, *limit) },
			"facts":   func(p state.Partition) []node.Fact { return node.PartitionFacts(&p) },
			"evicted": node.Evictions,
		}).Parse(pageText))
	})
	// Policy forbids a browser to load anything. The style is part of the page, and the policy has its
	// hash.
	Policy = fmt.Sprintf(
		"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hash(styleText),
	)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Page has what the page shows.
type Page struct {
	// Node is the name of the machine, and may be empty. Version is that of the program.
	Node, Version string
	// State reads the state of the node.
	State func() state.Status
	// Still means that a browser does not ask for the page again and again.
	Still bool
}

// drawn has the values for page.html.
type drawn struct {
	Page
	state.Status
	Style   template.CSS
	At      time.Time
	Refresh int
}

// ServeHTTP implements http.Handler.
func (p Page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d := drawn{Page: p, Status: p.State(), Style: template.CSS(styleText), At: time.Now().UTC()}
	if !p.Still {
		d.Refresh = refreshInterval
	}
	var text bytes.Buffer // so that an error is found before the status is written
	if err := parsed().Execute(&text, d); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text.Bytes()) // fails if the client is gone
}

// Facts returns what there is to say of the node.
func (d drawn) Facts() []node.Fact { return node.Facts(&d.Status) }

// Verdict returns what an operator should know, the worst first; one fact that is good if there is
// nothing.
func (d drawn) Verdict() []node.Fact {
	facts := d.Facts()
	for i := range d.Partitions {
		facts = append(facts, node.Verdict(&d.Status, &d.Partitions[i]))
	}
	facts = slices.DeleteFunc(facts, func(f node.Fact) bool { return f.Level == node.Good })
	slices.SortStableFunc(facts, func(a, b node.Fact) int { return cmp.Compare(b.Level, a.Level) })
	if len(facts) == 0 {
		return []node.Fact{{Text: "All pods are in their place, and no partition is short of memory."}}
	}
	return facts
}

// Age returns how old the places of the pods are.
func (d drawn) Age() time.Duration { return d.At.Sub(d.Time).Round(time.Second) }

// Members returns the pods that have to do with a partition.
func (d drawn) Members(p state.Partition) node.Table { return node.Members(&d.Status, &p) }

// folded is a table of which the page shows a part at once.
type folded struct {
	Shown, Folded node.Table
	// Left counts the rows that the page leaves out.
	Left int
}

func fold(t node.Table) folded {
	shown := min(shownRows, len(t.Rows))
	//guard: a table of the page is bounded
	most := min(mostRows, len(t.Rows))
	return folded{
		node.Table{Head: t.Head, Rows: t.Rows[:shown]},
		node.Table{Head: t.Head, Rows: t.Rows[shown:most]},
		len(t.Rows) - most,
	}
}

// class returns the class of page.css for a level.
func class(l node.Level) string { return [...]string{"good", "warning", "bad"}[l] }

// scale returns the place of an amount on a line of a length that ends at another amount.
func scale(bytes, whole, length uint64) int {
	return int(math.Round(float64(length) * float64(min(bytes, whole)) / float64(max(whole, 1))))
}

// clean returns foreign text on one line, cut if it is long. A question mark is in place of what
// would turn the text after it around.
func clean(content string) string {
	const most = 400
	content = strings.Map(func(r rune) rune {
		//guard: a name does not turn the text after it around
		if unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, text.Terminal(content))
	if len(content) <= most {
		return content
	}
	end := most
	for !utf8.RuneStart(content[end]) {
		end--
	}
	return content[:end] + "…"
}
