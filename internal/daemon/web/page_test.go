package web

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"nodepartition/pkg/podmove"
)

// served returns the page of a monitor, parsed.
func served(t *testing.T, f *fake, path string) (text string, document *html.Node) {
	t.Helper()
	status, _, text := do(t, f.handler(t), "GET", "http://localhost"+path)
	if status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
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
	for name, f := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, document := served(t, f, "/")
			balanced(t, text)
			inert(t, document)
			accessible(t, document)
			if left := regexp.MustCompile(`ZgotmplZ|%!|<nil>|0x[0-9a-f]{6}`).FindString(text); left != "" {
				t.Errorf("the page has %q", left)
			}
		})
	}
}

// balanced checks that each element is closed, in the order of their beginnings: html.Parse repairs
// what is not.
func balanced(t *testing.T, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "<!DOCTYPE html>\n") {
		t.Errorf("it begins with %.40q", text)
	}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) || len(open) > 0 {
				t.Errorf("%v; open are %v", z.Err(), open)
			}
			return
		case html.StartTagToken:
			if tag, _ := z.TagName(); string(tag) != "meta" {
				open = append(open, string(tag))
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(tag) {
				t.Fatalf("</%s> where %v are open", tag, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// inert checks that the page loads, runs and sends nothing.
func inert(t *testing.T, document *html.Node) {
	t.Helper()
	allowed := strings.Fields(`html head meta title style body a header h1 h2 h3 p time span nav main section ul li strong code bdi
		svg rect path dl div dt dd details summary table caption tbody tr th td`)
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
		age := e.NextSibling.NextSibling
		if _, err := time.Parse(time.RFC3339, at); err != nil || !strings.HasPrefix(words(age), "(") {
			t.Errorf("the time %q (%q) has no age", at, words(e))
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

// TestPageNormal: the page of a node on which all is well. Times are of the bubble.
func TestPageNormal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, document := served(t, newFake(), "/")
		contains(t, named(document, "title")[0], "OK: partitions of node-1")
		contains(t, named(document, "header")[0], "partition-monitor v1.2.3, at 00:00:00 UTC (just now)", "refreshes every 15 seconds", "Stop refreshing")
		contains(t, section(t, document, "OK"), "All pods are in their place, and no partition is short of memory.")
		system := section(t, document, "Partition system")
		contains(t, system,
			"184Mi of 512Mi used, 200Mi until the soft threshold, 264Mi until an eviction at once.", "most in 5 minutes 210Mi", "evicts at once below 64Mi left",
			"evicts after 1m30s below 128Mi left", "with page cache 300Mi", "(just now)",
			"next kube-system/log-collector-x7k2p Burstable, priority 0 17Mi more than it requests (64Mi) 81Mi 17Mi more",
			"2. kube-system/metrics-server-6d8f4c-q2wvz Burstable, priority 2000000000 within its request (32Mi) 21Mi within its request (32Mi)",
			"2 that are not evicted", "never kube-system/etcd-node-1 Guaranteed, priority 2000001000 a static pod 64Mi a static pod",
			"1999-12-31 21:00:00 UTC (3 h ago) kube-system/log-collector-b4s8d was evicted below the hard threshold. It used 180Mi and requested 64Mi, and 61Mi were available.",
			"(26 h ago) kube-system/etcd-node-1 was restarted to be in partition system. (2 times)",
			"Least margin: 16Mi, when 432Mi were used, at 1999-12-31 20:59:00 UTC (3 h ago)",
			"hour from", "20:00 UTC 432Mi 512Mi 16Mi 1", "5 in their place", "kube-system/coredns-6d4b75cb6d-x2x4z Burstable in its place 1 in its place",
		)
		contains(t, section(t, document, "Sources"), "The pods are those of the pass at 1999-12-31 23:59:40 UTC (20 s ago)", "kubelet connected")
		contains(t, section(t, document, "Other pods"), "1 that no partition has to do with", "web/shop-1")
		bar := named(system, "svg")[0]
		if label, _ := attribute(bar, "aria-label"); label != "184Mi of 512Mi used, at most 210Mi in five minutes; a pod is evicted when less than 64Mi is left" {
			t.Errorf("the bar is labelled %q", label)
		}
		// 184 of 512 are 359 of 1000, and 448 are 875.
		for _, want := range []string{`class="used" y="6" width="359"`, `class="hard" x="875"`, `class="hardline" d="M875 0V30"`, `class="softline" d="M750 0V30"`, `class="peak" d="M410 3V27"`} {
			if text, _ := served(t, newFake(), "/"); !strings.Contains(text, want) {
				t.Errorf("the bar lacks %s", want)
			}
		}
	})
}

// TestPagePressed: a node that is short of memory while the runtime does not answer. The page says
// what is missing, and shows the rest.
func TestPagePressed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, document := served(t, newPressed(), "/")
		contains(t, named(document, "title")[0], "Problem: partitions of node-1")
		verdict := section(t, document, "Problem")
		contains(t, verdict,
			"Problem Partition system is short of memory: 32Mi beyond the hard threshold.",
			"Attention: Not ready: runtime: unix:///run/containerd/containerd.sock: no answer",
			"Attention: No connection to runtime. The pods below are from the last pass.",
			"Attention: 1 pod is not where it belongs.",
		)
		system := section(t, document, "Partition system")
		contains(t, system,
			"480Mi of 512Mi used, 32Mi beyond the hard threshold", "priority estimated", "Requests and priorities are estimates",
			"(2 s ago) kube-system/log-collector-x7k2p was stopped to be started again below the hard threshold.", "That is under way.",
			"(40 s ago) Problem: The kernel has killed a process at the limit of the partition. (3 times)",
			"(11 min ago) Problem: kube-system/metrics-server-6d8f4c-b7tqc was evicted", "Problem: not tried again: the API server does not allow it",
			"(2 days ago) kube-system/log-collector-4tt2z would have been evicted (dry run) below the hard threshold.",
			"1 misplaced", "kube-system/backup-27a1 BestEffort, 2 of 2 containers in kubepods-besteffort-pod8.slice restart-policy: it ends,",
			"moved live, 40Mi stayed outside",
		)
		if at, other := strings.Index(words(system), "backup-27a1"), strings.Index(words(system), "in their place"); at > other {
			t.Error("the misplaced pod is below the others")
		}
		contains(t, section(t, document, "Partition telemetry"),
			"80Mi used. There is no memory limit", "most in 5 minutes 90Mi", "Without a memory limit no pod is evicted.", "There is no pod in it.",
			"No eviction, kill or move is known.", "There are no members on this node.", "The history has no sample of it in the last hours yet.",
		)
		contains(t, section(t, document, "Sources"), "(7 min ago)", "runtime not connected. The pods below are from the last pass.", "kubelet not connected. Requests and priorities")
	})
}

// TestPageCrowded: of a node with 640 pods the page shows few at once, folds others, and counts the
// rest.
func TestPageCrowded(t *testing.T) {
	t.Parallel()
	text, document := served(t, newCrowded(), "/")
	if len(text) > 400<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	open, folded := 0, 0
	for _, row := range named(document, "tr") {
		inDetails := false
		for p := row.Parent; p != nil; p = p.Parent {
			inDetails = inDetails || p.Data == "details"
		}
		if inDetails {
			folded++
		} else {
			open++
		}
	}
	if want := shownCandidates + shownEvents + shownMisplaced + shownMembers + 4 + 5; open > want || folded > 5*mostRows {
		t.Errorf("%d rows are shown and %d are folded; want %d at most at once", open, folded, want)
	}
	contains(t, document,
		"40 pods are not where they belong.", "40 misplaced", "30 more", "200 in their place", "190 more", "195 more",
		"400 that no partition has to do with", "100 more are left out. partition-monitor status lists all.",
	)
}

// TestPageHostile: a name with markup is text.
func TestPageHostile(t *testing.T) {
	t.Parallel()
	text, document := served(t, newHostile(), "/")
	shown := `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}???[31m"
	if count := strings.Count(words(document), shown); count < 30 {
		t.Errorf("the name is there %d times:\n%s", count, words(document))
	}
	for _, never := range []string{"<script", "<img", "\x00", "\x1b"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	// A name that runs from right to left must not turn the rest of its row.
	for _, e := range named(document, "th") {
		if scope, _ := attribute(e, "scope"); scope == "row" && strings.Contains(words(e), "alert") && e.FirstChild.Data != "bdi" {
			t.Errorf("a name that is not isolated: %q", words(e))
		}
	}
}

// TestPageLongNames: what others have written takes bounded room.
func TestPageLongNames(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.report.Pods[1].Name = strings.Repeat("é", 1<<20)
	text, document := served(t, f, "/")
	if len(text) > 100<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	contains(t, document, strings.Repeat("é", 200)+"…")
}

// TestPageStarting: what is not known yet is said, and nothing is made up.
func TestPageStarting(t *testing.T) {
	t.Parallel()
	f := newStarting(t)
	_, document := served(t, f, "/")
	contains(t, section(t, document, "Attention"), "Partition system: Its memory was not read yet.", "Attention: Partition telemetry: It is not active: its slice does not exist.",
		"Attention: Not ready: the first pass has not ended", "Attention: No connection to runtime.")
	contains(t, section(t, document, "Partition system"), "The first pass over the pods has not ended.",
		"No history is kept: --history keeps one.")
	for _, never := range []string{" 0 B", "There are no members", "There is no pod", "Next to be evicted"} {
		if strings.Contains(words(document), never) {
			t.Errorf("the page has %q", never)
		}
	}
	_, document = served(t, newEmpty(), "/")
	contains(t, section(t, document, "Problem"), "There is no partition on this node.")
	contains(t, named(document, "title")[0], "Problem: partitions of this node")
}

// TestPageHung: what hangs is the first thing to know.
func TestPageHung(t *testing.T) {
	t.Parallel()
	f := newPressed()
	f.alive = errors.New("no pass for 3m")
	_, document := served(t, f, "/")
	contains(t, section(t, document, "Problem"), "Problem Part of the program hangs: no pass for 3m Problem: Partition system is short of memory")
}

// TestPageRefresh: the page refreshes by itself, and a link stops that.
func TestPageRefresh(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/": "15", "/?refresh=off": "", "/?x=y": "15"} {
		_, document := served(t, newFake(), path)
		got := ""
		for _, e := range named(document, "meta") {
			if kind, _ := attribute(e, "http-equiv"); kind == "refresh" {
				got, _ = attribute(e, "content")
			}
		}
		if got != want {
			t.Errorf("%s: refreshes after %q, want %q", path, got, want)
		}
		found := named(named(document, "header")[0], "a")
		links := make([]string, 0, len(found))
		for _, e := range found {
			links = append(links, href(e))
		}
		other := map[string]string{"15": "/?refresh=off", "": "/"}[want]
		if !slices.Contains(links, other) {
			t.Errorf("%s: links to %q, want %s", path, links, other)
		}
	}
}

// TestPageCost: however many ask, the pods are measured once in two seconds, and the history is
// read once a minute.
func TestPageCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := f.handler(t)
		ask := func() string {
			_, _, text := do(t, h, "GET", "http://localhost/")
			do(t, h, "GET", "http://localhost/?refresh=off")
			return text
		}
		first := ask()
		for range 100 {
			ask()
		}
		if e := f.evictors[0]; e.asked != 1 || f.historyReads.Load() != 1 {
			t.Errorf("measured %d times, read the history %d times", e.asked, f.historyReads.Load())
		}
		f.report = podmove.Report{}
		if ask() != first {
			t.Error("the page has changed")
		}
		for range 31 {
			<-time.After(2 * time.Second)
			ask()
		}
		if e := f.evictors[0]; e.asked != 32 || f.historyReads.Load() != 2 {
			t.Errorf("then measured %d times, read the history %d times", e.asked, f.historyReads.Load())
		}
		if !strings.Contains(ask(), "The first pass over the pods has not ended") {
			t.Error("the page is an old one")
		}
	})
}

// TestPageHungDisk: a disk that does not answer holds up one page for two seconds, and is asked
// once. The history is there when it answers.
func TestPageHungDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.disk = make(chan struct{})
		h := f.handler(t)
		for _, want := range []time.Duration{historyPatience, 0, 0} {
			begin := time.Now()
			_, _, text := do(t, h, "GET", "http://localhost/")
			if took := time.Since(begin); took != want || !strings.Contains(text, "The history cannot be read: the disk does not answer") {
				t.Errorf("took %s, want %s:\n%s", took, want, text)
			}
			<-time.After(time.Minute)
		}
		close(f.disk)
		synctest.Wait()
		// What was read is minutes old by now.
		if _, _, text := do(t, h, "GET", "http://localhost/"); !strings.Contains(text, "Least margin") || f.historyReads.Load() != 2 {
			t.Errorf("the history was read %d times:\n%s", f.historyReads.Load(), text)
		}
		f.disk = make(chan struct{})
		for range 3 {
			<-time.After(time.Minute)
			do(t, h, "GET", "http://localhost/")
		}
		if _, _, text := do(t, h, "GET", "http://localhost/"); !strings.Contains(text, "the disk does not answer") || f.historyReads.Load() != 3 {
			t.Errorf("a disk that hangs later, %d readings:\n%s", f.historyReads.Load(), text)
		}
		close(f.disk)
	})
}

// TestPageClientGone: a client that is gone costs others nothing.
func TestPageClientGone(t *testing.T) {
	t.Parallel()
	h := newFake().handler(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "http://localhost/", nil))
	if _, _, text := do(t, h, "GET", "http://localhost/"); !strings.Contains(text, "Least margin") {
		t.Error("the page has no history")
	}
}

// TestPagePolicy: a browser may load, run and send nothing, and be in no frame. Each change of it
// has to be seen here.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	_, header, _ := do(t, newFake().handler(t), "GET", "http://localhost/")
	want := "default-src 'none'; style-src 'sha256-" + hash(styleText) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := header.Get("Content-Security-Policy"); got != want {
		t.Errorf("the policy is %q, want %q", got, want)
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
