//go:build pictures

package site

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// build returns the folder of the site.
func build(t *testing.T) string {
	t.Helper()
	testkit.NeedProgram(t, "mkdocs", "mkdocs mkdocs-material")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mkdocs", "build", "--strict", "--site-dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

var (
	identifiers = regexp.MustCompile(`\sid="([^"]+)"`)
	links       = regexp.MustCompile(`<a\s[^>]*?href="([^"]+)"`)
)

// TestLinks: each link of a page leads to a page of the site, and to a heading that is there.
func TestLinks(t *testing.T) {
	pages, anchors := map[string]string{}, map[string]bool{}
	root := os.DirFS(build(t))
	if err := fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" || name == "404.html" { // its links begin at the host
			return err
		}
		text, err := fs.ReadFile(root, name)
		pages[name] = string(text)
		for _, id := range identifiers.FindAllStringSubmatch(string(text), -1) {
			anchors[name+"#"+id[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Errorf("the site has %d pages", len(pages))
	}
	for name, text := range pages {
		for _, match := range links.FindAllStringSubmatch(text, -1) {
			link, err := url.Parse(match[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if link.IsAbs() {
				continue
			}
			to := name
			if link.Path != "" {
				to = path.Join(path.Dir(name), link.Path)
				if info, err := fs.Stat(root, to); err == nil && info.IsDir() {
					to = path.Join(to, "index.html")
				}
			}
			if _, err := fs.Stat(root, to); err != nil || link.Fragment != "" && pages[to] != "" && !anchors[to+"#"+link.Fragment] {
				t.Errorf("%s: %s leads nowhere", name, match[1])
			}
		}
	}
}

// TestFits: on a screen of 360 points a page with wide tables cannot be moved sideways, and for a
// reader who wants it dark it is. The page is in a frame, because a window has 500 points at least.
func TestFits(t *testing.T) {
	chromium, dir := testkit.NeedProgram(t, "chromium", "chromium"), build(t)
	const frame = `<!DOCTYPE html><title>not measured</title><iframe style="width: 360px; height: 1400px; border: 0" src="/%s" onload="
document.title = contentWindow.innerWidth + ' of ' + contentDocument.documentElement.scrollWidth + ' ' + contentDocument.body.dataset.mdColorScheme"></iframe>`
	for _, page := range []string{"", "metrics/", "cgroups/", "troubleshooting/eviction/"} {
		t.Run("/"+page, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("/", http.FileServer(http.Dir(dir)))
			mux.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, frame, page) })
			server := httptest.NewServer(mux)
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
				"--user-data-dir="+filepath.Join(t.TempDir(), "chromium"), "--blink-settings=preferredColorScheme=0", "--virtual-time-budget=20000",
				"--dump-dom", server.URL+"/frame").Output()
			if err != nil {
				t.Fatal(err)
			}
			_, title, _ := strings.Cut(string(out), "<title>")
			if title, _, _ = strings.Cut(title, "</title>"); title != "360 of 360 slate" {
				t.Errorf("its width and colours: %s", title)
			}
		})
	}
}
