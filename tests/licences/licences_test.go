// Package licences tests that an installation has the licences of the modules that the programs
// link.
package licences

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the licences")

// legal matches the names of the files that have to accompany copies of a module.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// TestLicences: deploy/third-party-licenses has the licence of each module that a program links on
// one of the architectures, and its notices. "make generate" writes it.
func TestLicences(t *testing.T) {
	t.Parallel()
	compare(t, "../../deploy/third-party-licenses", "../..")
}

// TestImageLicences: so has rollout/third-party-licenses, for the image, which has the controller,
// too.
func TestImageLicences(t *testing.T) {
	t.Parallel()
	compare(t, "../../rollout/third-party-licenses", "../..", "../../rollout")
}

// compare compares a file with the licences of the programs of modules.
func compare(t *testing.T, file string, roots ...string) {
	t.Helper()
	folders := map[string]string{"the Go standard library": runtimeRoot(t)}
	for _, root := range roots {
		for _, arch := range []string{"amd64", "arm64"} {
			maps.Copy(folders, modules(t, root, arch))
		}
		// The result depends on go.sum, which go list reads: go test has to know.
		if _, err := os.ReadFile(filepath.Join(root, "go.sum")); err != nil {
			t.Fatal(err)
		}
	}
	// Many modules have the same text.
	users := map[string][]string{}
	for _, module := range slices.Sorted(maps.Keys(folders)) {
		texts := legalTexts(t, folders[module])
		if len(texts) == 0 {
			t.Errorf("%s: no licence in %s", module, folders[module])
		}
		for _, text := range texts {
			users[text] = append(users[text], module)
		}
	}
	want := written(users)
	got, err := os.ReadFile(file)
	switch {
	case err == nil && string(got) == want:
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the licences of the modules, %v: make generate writes it", file, err)
	}
}

// written returns the content of the file: each text once, below the modules that have it.
func written(users map[string][]string) string {
	var all strings.Builder
	all.WriteString("The programs of Node System Partition contain the following modules. Each text applies to\n" +
		"the modules named above it. Written by make generate.\n")
	texts := slices.SortedFunc(maps.Keys(users), func(a, b string) int {
		return strings.Compare(users[a][0]+"\n"+a, users[b][0]+"\n"+b)
	})
	for _, text := range texts {
		all.WriteString("\n" + strings.Repeat("=", 78) + "\n" + strings.Join(users[text], "\n") + "\n" + strings.Repeat("-", 78) + "\n\n")
		all.WriteString(text)
	}
	return all.String()
}

// modules returns the folders of the modules that the programs of a module link on an architecture.
func modules(t *testing.T, root, arch string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "-C", root, "list", "-deps", "-json=ImportPath,Standard,Module", "./cmd/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Module     *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return folders
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && !p.Module.Main && p.Module.Path != "node-partition.io/node-partition" {
			folders[p.Module.Path] = p.Module.Dir
		}
	}
}

// runtimeRoot returns the folder of Go, whose standard library every program links.
func runtimeRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.Compiler != "gc" {
		t.Fatalf("compiled by %s, whose library has another licence", runtime.Compiler)
	}
	return strings.TrimSpace(string(out))
}

// legalTexts returns the texts in a folder that have to accompany a copy, without white space at
// the end of lines.
func legalTexts(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !legal.MatchString(entry.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for line := range strings.Lines(strings.ReplaceAll(string(data), "\r", "")) {
			text.WriteString(strings.TrimRight(line, " \t\n") + "\n")
		}
		texts = append(texts, strings.Trim(text.String(), "\n")+"\n")
	}
	return texts
}
