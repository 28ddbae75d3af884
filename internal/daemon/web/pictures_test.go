//go:build pictures

package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// TestPictures draws the page, as Chromium shows it, for the README. The fonts of the machine are
// in it. make pictures runs it.
func TestPictures(t *testing.T) {
	header, text := still(t, newNode)
	made := filepath.Join(t.TempDir(), "page.png")
	browse(t, testkit.NeedProgram(t, "chromium", "chromium"), header, text, "--window-size=900,1270", "--screenshot="+made)
	save(t, made, "../../../docs/page.png")
}

// still returns the page of a node at a time that is the same in each run.
func still(t *testing.T, node func() Page) (header http.Header, text string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2026, 11, 27, 15, 48, 16, 0, time.UTC))) // most times are of the same day
		page := node()
		page.Version = "v0.1.0"
		text, _ = served(t, page)
	})
	return http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {Policy}}, text
}

// browse has Chromium load a page, and returns its output.
func browse(t *testing.T, chromium string, header http.Header, text string, args ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		_, _ = io.WriteString(w, text) // fails if the client is gone
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--lang=en",
	}, append(args, server.URL)...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	return string(out)
}

// TestPicturesFit: on a screen of 360 points no page can be moved sideways, also with all that is
// folded. The page is in a frame, because a window has 500 points at least. A script of the test's
// own measures it, so the page comes without the policy that forbids scripts.
func TestPicturesFit(t *testing.T) {
	chromium := testkit.NeedProgram(t, "chromium", "chromium")
	const frame = `<!DOCTYPE html><title>not measured</title><iframe style="width: 360px; height: 1400px; border: 0" onload="
for (const folded of contentDocument.querySelectorAll('details')) folded.open = true
document.title = contentWindow.innerWidth + ' of ' + contentDocument.documentElement.scrollWidth" srcdoc="%s"></iframe>`
	for name, node := range fixtures {
		t.Run(name, func(t *testing.T) {
			_, text := still(t, node)
			header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
			document := browse(t, chromium, header, fmt.Sprintf(frame, html.EscapeString(text)), "--dump-dom")
			if want := "<title>360 of 360</title>"; !strings.Contains(document, want) {
				t.Errorf("want %s in\n%.100s", want, document)
			}
		})
	}
}

// save writes a picture with its most frequent colours alone, which takes a third of the room.
func save(t *testing.T, made, kept string) {
	t.Helper()
	const most = 32
	from := picture(t, made)
	counts := map[color.Color]int{}
	for i := range from.Bounds().Dx() {
		for j := range from.Bounds().Dy() {
			counts[from.At(i, j)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] }))
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(encoder.Encode(&out, reduced(from, palette[:min(most, len(palette))])), os.WriteFile(kept, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 100<<10 {
		t.Errorf("%s has %d bytes", kept, out.Len())
	}
}

// reduced returns a picture with the nearest colours of a palette.
func reduced(from image.Image, palette color.Palette) image.Image {
	to := image.NewPaletted(from.Bounds(), palette)
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	return to
}

func picture(t *testing.T, path string) image.Image {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
