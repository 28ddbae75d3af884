//go:build pictures

package web

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/tests/needs"
)

// update replaces the pictures. The fonts of the machine are in them: a picture that was made on
// another one differs.
var update = flag.Bool("update", false, "write the pictures")

// TestPictures compares the page, as Chromium shows it, with the pictures in testdata. make
// pictures runs it.
func TestPictures(t *testing.T) {
	chromium := needs.Program(t, "chromium", "chromium")
	for _, test := range []struct {
		name          string
		node          func(*testing.T) *fake
		width, height int
		dark          bool
	}{
		// The first is in the README, too.
		{"../../../../docs/page", of(newFake), 900, 1300, false},
		{"normal-360-dark", of(newFake), 360, 1400, true},
		{"pressed-dark", of(newPressed), 900, 1700, true},
		{"pressed-360", of(newPressed), 360, 2600, false},
		{"crowded", of(newCrowded), 900, 1500, false},
		{"hostile-360", of(newHostile), 360, 1500, false},
		{"starting", newStarting, 900, 700, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(still(t, test.node))
			defer server.Close()
			made := filepath.Join(t.TempDir(), "page.png")
			shoot(t, chromium, server.URL, made, test.width, test.height, test.dark)
			kept := filepath.Join("testdata", test.name+".png")
			if *update {
				keep(t, made, kept)
				return
			}
			if part := different(t, made, kept); part > .02 {
				t.Errorf("%.1f %% of the picture differ from %s: %s", 100*part, kept, made)
			}
		})
	}
}

// of returns a function for a node that needs no test.
func of(node func() *fake) func(*testing.T) *fake { return func(*testing.T) *fake { return node() } }

// still returns the page of a node at a time that is the same in each run.
func still(t *testing.T, node func(*testing.T) *fake) http.Handler {
	t.Helper()
	var header http.Header
	var text string
	synctest.Test(t, func(t *testing.T) {
		<-time.After(15*time.Hour + 48*time.Minute + 16*time.Second) // most times are of the same day
		_, header, text = do(t, node(t).handler(t), "GET", "http://localhost/")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		_, _ = io.WriteString(w, text) // fails if the client is gone
	})
}

// shoot has Chromium take a picture of a page.
func shoot(t *testing.T, chromium, url, file string, width, height int, dark bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--lang=en",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot=" + file,
	}
	if dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	if out, err := exec.CommandContext(ctx, chromium, append(args, url)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// keep writes a picture with its most frequent colours alone, which takes a third of the room.
func keep(t *testing.T, made, kept string) {
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
	to := image.NewPaletted(from.Bounds(), palette[:min(most, len(palette))])
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(encoder.Encode(&out, to), os.WriteFile(kept, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 100<<10 {
		t.Errorf("%s has %d bytes", kept, out.Len())
	}
}

// different returns the part of the points of two pictures that are not nearly equal.
func different(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := picture(t, a), picture(t, b)
	if x.Bounds() != y.Bounds() {
		t.Errorf("%s is %v, %s is %v", a, x.Bounds(), b, y.Bounds())
		return 1
	}
	const near = 0x2000 // of 0xffff
	differ := 0
	for i := range x.Bounds().Dx() {
		for j := range x.Bounds().Dy() {
			r, g, b, _ := x.At(i, j).RGBA()
			r2, g2, b2, _ := y.At(i, j).RGBA()
			for _, pair := range [][2]uint32{{r, r2}, {g, g2}, {b, b2}} {
				if max(pair[0], pair[1])-min(pair[0], pair[1]) > near {
					differ++
					break
				}
			}
		}
	}
	return float64(differ) / float64(x.Bounds().Dx()*x.Bounds().Dy())
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
