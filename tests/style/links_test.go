package style

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

// mention matches a document that a text names without a link. runc has a folder docs too.
var mention = regexp.MustCompile(`(runc )?\b(docs/[\w/-]+\.md)(#[\w-]+)?`)

// TestLinks: each link of a document leads to a file and a heading that exist, and so does each
// mention of a document in another one, a source, a script, a unit or a manual page.
func TestLinks(t *testing.T) {
	t.Parallel()
	const root = "../.."
	headings := map[string]map[string]bool{}
	follow := func(from, path, anchor string) {
		text, err := os.ReadFile(path)
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() && anchor == "" {
			return
		}
		if err != nil {
			t.Errorf("%s leads to %s, which does not exist", from, path)
			return
		}
		if headings[path] == nil {
			headings[path] = testkit.Anchors(string(text))
		}
		if anchor != "" && !headings[path][anchor] {
			t.Errorf("%s leads to %s#%s, which has no such heading", from, path, anchor)
		}
	}
	links := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || name == "bin" || name == "tests/lab/sources"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		ext := filepath.Ext(name)
		if ext != ".md" && ext != ".go" && ext != ".5" && ext != ".8" && ext != ".service" && ext != ".yaml" && ext != ".default" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(data)
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if m[1] == "" {
				follow(name, filepath.Join(root, m[2]), strings.TrimPrefix(m[3], "#"))
			}
		}
		if ext != ".md" {
			return nil
		}
		for _, to := range testkit.Links(text) {
			links++
			file, anchor, _ := strings.Cut(to, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			follow(name, target, anchor)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links == 0 {
		t.Error("no links: this test does not find them any more")
	}
}
