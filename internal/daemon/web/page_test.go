package web

import (
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
)

// served returns the page of a node, parsed.
func served(t *testing.T, p Page) (text string, document *html.Node) {
	t.Helper()
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	text = recorder.Body.String()
	document, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return text, document
}

// elements returns the elements below n for which is returns true.
func elements(n *html.Node, is func(*html.Node) bool) []*html.Node {
	var list []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && is(d) {
			list = append(list, d)
		}
	}
	return list
}

// named returns the elements of a name.
func named(n *html.Node, name string) []*html.Node {
	return elements(n, func(e *html.Node) bool { return e.Data == name })
}

func attribute(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// words returns the text of an element, without the text of others in attributes, on one line.
func words(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data + " ")
		}
	}
	joined := strings.Join(strings.Fields(text.String()), " ")
	return strings.NewReplacer(" .", ".", " ,", ",", " :", ":").Replace(joined)
}

// section returns the section or the details with a heading or summary.
func section(t *testing.T, document *html.Node, heading string) *html.Node {
	t.Helper()
	for _, e := range elements(document, func(e *html.Node) bool { return slices.Contains([]string{"h2", "h3", "summary"}, e.Data) }) {
		if words(e) == heading {
			return e.Parent
		}
	}
	t.Fatalf("no %q", heading)
	return nil
}

// TestPageWellFormed: for every node the page loads and runs nothing, and a browser and a screen
// reader find what they need.
func TestPageWellFormed(t *testing.T) {
	t.Parallel()
	for name, of := range fixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, document := served(t, of())
			inert(t, document)
			accessible(t, document)
			if left := regexp.MustCompile(`ZgotmplZ|%!|<nil>|0x[0-9a-f]{6}`).FindString(text); left != "" {
				t.Errorf("the page has %q", left)
			}
		})
	}
}

// inert checks that the page loads, runs and sends nothing.
func inert(t *testing.T, document *html.Node) {
	t.Helper()
	allowed := strings.Fields(`html head meta title style body a header h1 h2 h3 p time span nav main section ul li strong code bdi
		svg g rect path dl div dt dd details summary table caption tbody tr th td`)
	for _, e := range elements(document, func(*html.Node) bool { return true }) {
		if !slices.Contains(allowed, e.Data) {
			t.Errorf("an element %s", e.Data)
		}
		for _, a := range e.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src", a.Key == "action":
				t.Errorf("%s has %s=%q", e.Data, a.Key, a.Val)
			case a.Key == "href" && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#"):
				t.Errorf("a link to %q", a.Val)
			}
		}
	}
}

// accessible checks landmarks, headings, tables, pictures and times.
func accessible(t *testing.T, document *html.Node) {
	t.Helper()
	for _, one := range []string{"html", "title", "header", "nav", "main", "h1"} {
		if found := len(named(document, one)); found != 1 {
			t.Errorf("%d times %s", found, one)
		}
	}
	if lang, _ := attribute(named(document, "html")[0], "lang"); lang != "en" {
		t.Errorf("lang is %q", lang)
	}
	ids := map[string]bool{}
	for _, e := range elements(document, func(*html.Node) bool { return true }) {
		id, has := attribute(e, "id")
		if has && (ids[id] || !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(id)) {
			t.Errorf("the id %q is there twice, or has other characters", id)
		}
		ids[id] = ids[id] || has
	}
	for _, e := range named(document, "section") {
		if by, _ := attribute(e, "aria-labelledby"); !ids[by] {
			t.Errorf("a section is labelled by %q", by)
		}
	}
	for _, e := range named(document, "a") {
		if to, ok := strings.CutPrefix(href(e), "#"); words(e) == "" || ok && !ids[to] {
			t.Errorf("a link %q to %q", words(e), href(e))
		}
	}
	last := 0
	for _, e := range elements(document, func(e *html.Node) bool { return regexp.MustCompile(`^h[1-6]$`).MatchString(e.Data) }) {
		rank := int(e.Data[1] - '0')
		if rank > last+1 || words(e) == "" {
			t.Errorf("%s %q after h%d", e.Data, words(e), last)
		}
		last = rank
	}
	for _, e := range named(document, "svg") {
		role, _ := attribute(e, "role")
		if label, _ := attribute(e, "aria-label"); role != "img" || label == "" {
			t.Errorf("a picture with the role %q, labelled %q", role, label)
		}
	}
	for _, e := range named(document, "details") {
		if e.FirstChild == nil || e.FirstChild.Data != "summary" || words(e.FirstChild) == "" {
			t.Errorf("details without a summary: %q", words(e))
		}
	}
	for _, e := range named(document, "time") {
		at, _ := attribute(e, "datetime")
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Errorf("the time %q: %v", at, err)
		}
	}
	for _, e := range named(document, "table") {
		table(t, e)
	}
}

func href(e *html.Node) string {
	to, _ := attribute(e, "href")
	return to
}

// table checks that a table has headers, and rows of one length.
func table(t *testing.T, e *html.Node) {
	t.Helper()
	columns := 0
	for i, row := range named(e, "tr") {
		cells := elements(row, func(e *html.Node) bool { return e.Data == "td" || e.Data == "th" })
		if i == 0 {
			columns = len(cells)
		}
		if len(cells) != columns {
			t.Errorf("a row of %d cells in a table of %d columns: %q", len(cells), columns, words(row))
		}
		for _, cell := range cells {
			scope, _ := attribute(cell, "scope")
			if want := map[bool]string{true: "col", false: "row"}[i == 0]; (i == 0 || cell.Data == "th") && scope != want {
				t.Errorf("the header %q has the scope %q", words(cell), scope)
			}
		}
	}
}

// contains checks the words of an element.
func contains(t *testing.T, n *html.Node, wanted ...string) {
	t.Helper()
	text := words(n)
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q: %s", want, text)
		}
	}
}

// TestPageNormal: the page of a node on which all is well.
func TestPageNormal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text, document := served(t, newNode())
		contains(t, named(document, "title")[0], "OK: partitions of node-1")
		contains(t, named(document, "header")[0], "partition-monitor v1.2.3, at 2000-01-01 00:00:00 UTC", "refreshes every 15 seconds", "Stop refreshing")
		contains(t, section(t, document, "OK"), "All pods are in their place, and no partition is short of memory.")
		system := section(t, document, "Partition system")
		contains(t, system,
			"Namespaces kube-system", "Memory 184Mi used of 512Mi, 210Mi at most in 5 minutes, and 116Mi of page cache", "CPUs all, weight 79",
			"Evicts below 128Mi available for 1m30s, after 200Mi more; below 64Mi available, after 264Mi more",
			"log-collector-x7k2p 81Mi 64Mi next in place", "metrics-server-6d8f4c-q2wvz 21Mi 32Mi 2. in place",
			"kube-system etcd-node-1 50Mi 100Mi never: static in place",
			"1999-12-31T21:00:00Z kube-system log-collector-b4s8d 180Mi 64Mi hard evict done",
			"The last day 512Mi 0, 24 hours ago memory, most used in an hour, below the limit of 512Mi now",
			"Last day 456Mi at most", "hours ago most used 0 180Mi", "3 456Mi", "5 not measured",
		)
		if strings.Contains(words(system), "shop-1") {
			t.Error("a pod of no partition is a member of one")
		}
		contains(t, section(t, document, "Node"), "Service ready", "The pods are those of a reconcile 20s ago")
		bar := named(system, "svg")[0]
		if label, _ := attribute(bar, "aria-label"); label != "184Mi of 512Mi used" {
			t.Errorf("the bar is labelled %q", label)
		}
		// 184 of 512 are 359 of 1000, and 448 are 875. 456 of 512 are 103 of 116, and 64 below 512
		// are 102.
		for _, want := range []string{
			`class="used" y="6" width="359"`, `class="hard" x="875"`, `class="soft" x="750"`, `class="peak" d="M410 3V27"`,
			`<rect class="used" x="3" width="1" height="103"/>`, `<rect class="used" x="5" width="1" height="0"/>`,
			`class="limit" d="M0 116H24"`, `class="hardline" d="M0 102H24"`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the pictures lack %s", want)
			}
		}
	})
}

// TestPagePressed: a node that is short of memory while the runtime does not answer. The page says
// what is missing, the worst first, and shows the rest.
func TestPagePressed(t *testing.T) {
	t.Parallel()
	_, document := served(t, newPressed())
	contains(t, named(document, "title")[0], "Problem: partitions of node-1")
	contains(t, section(t, document, "Problem"),
		"Problem system BELOW THE HARD THRESHOLD; 1 of 6 pods not in place Service not ready: runtime: unix:///run/containerd/containerd.sock: no answer",
	)
	system := section(t, document, "Partition system")
	contains(t, system, "requests and priorities are estimated", "log-collector-x7k2p 180Mi 64Mi hard restart under way",
		"metrics-server-6d8f4c-b7tqc 180Mi 64Mi hard evict not tried again: the API server does not allow it", "log-collector-4tt2z 180Mi 64Mi hard evict dry run",
		"kube-system backup-27a1 - - - OUTSIDE: restart-policy: it ends, and", "below 64Mi available, NOW by 32Mi",
	)
	if _, members, _ := strings.Cut(words(system), "Pods"); strings.Index(members, "backup-27a1") > strings.Index(members, "etcd-node-1") {
		t.Error("the misplaced pod is below the others")
	}
	contains(t, section(t, document, "Partition telemetry"), "Memory 80Mi used, and 20Mi of page cache", "Evicts no pod, without a memory limit", "Nothing was measured yet.", "None is known.")
	contains(t, section(t, document, "Node"), "a reconcile 7m0s ago")
}

// TestPageVerdict: what there is to know of the memory of a partition.
func TestPageVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		available, hard, soft uint64
		crossed               evict.Threshold
		want                  string
	}{
		"much left":                   {500, 100, 0, "", "OK"},
		"less than twice, far enough": {150, 100, 0, "", "OK"},
		"nearly full":                 {149, 100, 0, "", "Attention"},
		"far above a small threshold": {40, 10, 0, "", "OK"},
		"at the threshold":            {100, 100, 0, "", "Attention"},
		"below it":                    {99, 100, 0, "", "Problem"},
		"crossed, and a little back":  {105, 100, 0, evict.Hard, "Problem"},
		"soft alone":                  {160, 0, 200, "", "Problem"},
		"soft nearer":                 {240, 100, 200, "", "Attention"},
		"far above the nearer one":    {260, 100, 200, "", "OK"},
		"no threshold":                {1, 0, 0, "", "OK"},
	} {
		_, document := served(t, changed(func(s *state.Status) {
			limit := uint64(1000 * mi)
			p := &s.Partitions[0]
			p.LimitBytes = &limit
			p.Eviction.AvailableBytes, p.Eviction.HardBytes, p.Eviction.SoftBytes, p.Eviction.Crossed = test.available*mi, test.hard*mi, test.soft*mi, test.crossed
		}))
		if got, _, _ := strings.Cut(words(named(document, "title")[0]), ":"); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestPageNoCandidate: a partition that is short of memory, and of which no pod can be evicted.
func TestPageNoCandidate(t *testing.T) {
	t.Parallel()
	_, document := served(t, changed(func(s *state.Status) {
		e := s.Partitions[0].Eviction
		e.Crossed, e.Order = evict.Hard, e.Order[4:]
	}))
	contains(t, section(t, document, "Problem"), "no pod can be evicted: the kernel will kill at the limit")
}

// TestPageCrowded: of a node with 440 members the page shows few at once, folds others, and counts
// the rest.
func TestPageCrowded(t *testing.T) {
	t.Parallel()
	text, document := served(t, newCrowded())
	if len(text) > 400<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	open, unfolded := 0, 0
	for _, row := range named(document, "tr") {
		inDetails := false
		for p := row.Parent; p != nil; p = p.Parent {
			inDetails = inDetails || p.Data == "details"
		}
		if inDetails {
			unfolded++
		} else {
			open++
		}
	}
	if want := 3*shownRows + 3; open > want || unfolded > 2*mostRows+26 {
		t.Errorf("%d rows are shown and %d are folded; want %d at most at once", open, unfolded, want)
	}
	contains(t, document, "system 40 of 440 pods not in place", "lost-039", "290 more", "140 more are left out. partition-monitor status lists all.")
}

// TestPageHostile: a name with markup is text.
func TestPageHostile(t *testing.T) {
	t.Parallel()
	text, document := served(t, newHostile())
	shown := `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}???[31m"
	if count := strings.Count(words(document), shown); count < 25 {
		t.Errorf("the name is there %d times:\n%s", count, words(document))
	}
	for _, never := range []string{"<script", "<img", "\x00", "\x1b"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

// TestPageLongNames: what others have written takes bounded room.
func TestPageLongNames(t *testing.T) {
	t.Parallel()
	text, document := served(t, changed(func(s *state.Status) { s.Pods[1].Name = strings.Repeat("é", 1<<20) }))
	if len(text) > 100<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	contains(t, document, strings.Repeat("é", 200)+"…")
}

// TestPageStarting: what is not known yet is said, and nothing is made up.
func TestPageStarting(t *testing.T) {
	t.Parallel()
	_, document := served(t, newStarting())
	contains(t, section(t, document, "Attention"), "Service not ready: the first reconcile has not ended", "Pods not shown: the first reconcile has not ended")
	contains(t, section(t, document, "Partition system"), "Nothing was measured yet.", "None is known.")
	contains(t, section(t, document, "Node"), "The first reconcile of the pods has not ended.")
	if strings.Contains(words(document), "Evictions") {
		t.Error("the page has evictions that could not be read")
	}
	contains(t, named(document, "title")[0], "Attention: partitions of this node")
	_, document = served(t, newEmpty())
	contains(t, section(t, document, "Attention"), "Partition none is active")
}

// TestPageRefresh: the page refreshes by itself, and a link stops that.
func TestPageRefresh(t *testing.T) {
	t.Parallel()
	for still, want := range map[bool][2]string{false: {"15", "/?refresh=off"}, true: {"", "/"}} {
		p := newNode()
		p.Still = still
		_, document := served(t, p)
		got := ""
		for _, e := range named(document, "meta") {
			if kind, _ := attribute(e, "http-equiv"); kind == "refresh" {
				got, _ = attribute(e, "content")
			}
		}
		if link := href(named(named(document, "header")[0], "a")[0]); got != want[0] || link != want[1] {
			t.Errorf("still %t: refreshes after %q, links to %q; want %q", still, got, link, want)
		}
	}
}

// TestPagePolicy: a browser may load, run and send nothing, and be in no frame. Each change of it
// has to be seen here. The style applies only if the hash fits it byte for byte.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	text, _ := served(t, newNode())
	_, style, _ := strings.Cut(text, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	want := "default-src 'none'; style-src 'sha256-" + hash(style) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if Policy != want {
		t.Errorf("the policy is %q, want %q", Policy, want)
	}
}

// TestStyleContrast: text can be read in the light and in the dark: 4.5 to 1 for text and 3 to 1
// for pictures (WCAG 2.2, 1.4.3 and 1.4.11).
func TestStyleContrast(t *testing.T) {
	t.Parallel()
	_, dark, found := strings.Cut(styleText, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("no dark colours")
	}
	light, _, _ := strings.Cut(styleText, "@media")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{3,6});`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"text", "page", 7}, {"quiet", "page", 4.5}, {"link", "page", 4.5}, {"good", "page", 4.5}, {"warning", "page", 4.5}, {"bad", "page", 4.5},
			{"used", "track", 3}, {"warning", "track", 3}, {"bad", "track", 3}, {"text", "track", 3}, {"bad", "hardzone", 3}, {"warning", "softzone", 3},
		} {
			if got := contrast(t, colours[pair.front], colours[pair.back]); got < pair.least {
				t.Errorf("%s: %s on %s has a contrast of %.1f, want %.1f", scheme, pair.front, pair.back, got, pair.least)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

// luminance is the relative luminance of WCAG.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	digits := strings.TrimPrefix(colour, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 6 {
		t.Fatalf("the colour %q", colour)
	}
	part := func(shift int) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= .04045 {
			return c / 12.92
		}
		return math.Pow((c+.055)/1.055, 2.4)
	}
	return .2126*part(16) + .7152*part(8) + .0722*part(0)
}
