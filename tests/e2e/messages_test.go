//go:build node

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	// docsFolder has the pages of the package on a node. Those below messagesFolder explain messages.
	docsFolder     = "/usr/share/doc/node-partition"
	messagesFolder = docsFolder + "/troubleshooting/"
	// leastMessages is a number of messages that an operator may meet, of either kind. With fewer this
	// test does not find them any more.
	leastMessages = 60
)

// TestMessages: who reads a message on a node that has nothing but the package finds what it means,
// at the address beside it.
func TestMessages(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		// Built before the node takes its place on the host.
		files := append(refusedConfigurations(t), lab.File{Path: "/root/1.deb", Data: packageOf(t, "", "1"), Mode: 0o644})
		n := lab.ForTest(t, lab.Options{Flavour: flavour, Restore: true})
		if err := n.CopyTo(t.Context(), files...); err != nil {
			t.Fatal(err)
		}
		run(t, n, withDocumentation+" && dpkg -i /root/1.deb >/dev/null 2>&1")
		p := installedPages(t, n)
		t.Run("printed", func(t *testing.T) { p.printed(t, n, countRefused(files)) })
		t.Run("documented", p.documented)
		t.Run("manuals", func(t *testing.T) { manualsAreThere(t, n) })
	})
}

// The files of another node, and configurations that its generator refuses.
const (
	otherNode  = "/root/other"
	allRefused = "/root/refused"
)

// refusedConfigurations returns the node of the golden cases, and the configurations of those that
// are refused.
func refusedConfigurations(t *testing.T) []lab.File {
	t.Helper()
	const generator = "../generator"
	cases, err := golden.Load(generator)
	if err != nil {
		t.Fatal(err)
	}
	var files []lab.File
	for _, c := range cases {
		if config, ok := c.Files[golden.ConfigPath]; ok && c.Want.Status == 1 && len(c.Files) == 1 && len(c.Remove) == 0 {
			files = append(files, lab.File{Path: allRefused + "/" + c.Name, Data: []byte(config)})
		}
	}
	shared := filepath.Join(generator, "node")
	err = filepath.WalkDir(shared, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(shared, file)
		files = append(files, lab.File{Path: otherNode + "/" + name, Source: file, Mode: 0o644})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// countRefused counts the configurations among files.
func countRefused(files []lab.File) int {
	count := 0
	for _, f := range files {
		if path.Dir(f.Path) == allRefused {
			count++
		}
	}
	return count
}

// pages has the text of the pages on a node by their paths.
type pages map[string]string

// installedPages reads the pages of the package.
func installedPages(t *testing.T, n *lab.Node) pages {
	t.Helper()
	const mark = "\f" // before each page
	out := run(t, n, "cd "+docsFolder+" && find . -name '*.md' -printf '%P\\n' | "+
		`while read -r name; do printf '\f%s\n' "$name"; cat "$name"; done`)
	found := pages{}
	for part := range strings.SplitSeq(out, mark) {
		name, text, _ := strings.Cut(part, "\n")
		found[docsFolder+"/"+name] = text
	}
	return found
}

// open follows addresses, each a page with or without a heading.
func (p pages) open(t *testing.T, addresses map[string]bool) {
	t.Helper()
	anchors := map[string]map[string]bool{}
	for address := range addresses {
		file, anchor, _ := strings.Cut(address, "#")
		text, ok := p[file]
		if !ok {
			t.Errorf("%s: the node does not have the page", address)
			continue
		}
		if anchors[file] == nil {
			anchors[file] = testkit.Anchors(text)
		}
		if anchor != "" && !anchors[file][anchor] {
			t.Errorf("%s: the page does not have the heading", address)
		}
	}
}

// printed: each finding of check that is not in order has an address, on this node and on the one
// of the golden cases with one broken configuration after the other. configurations counts them.
func (p pages) printed(t *testing.T, n *lab.Node, configurations int) {
	const command = monitorPath + " check -o json"
	config := otherNode + "/" + golden.ConfigPath
	const orRefused = " || test $? = 1 || exit 1"
	out := run(t, n, command+orRefused+"\nmkdir -p "+path.Dir(config)+"\n"+
		"for name in "+allRefused+"/*; do cp $name "+config+" || exit 1; "+command+" --root "+otherNode+orRefused+"; done")
	var reports int
	messages, addresses := map[string]bool{}, map[string]bool{}
	for decoder := json.NewDecoder(strings.NewReader(out)); ; reports++ {
		var report state.Findings
		if err := decoder.Decode(&report); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("report %d: %v", reports, err)
		}
		refused := false
		for _, f := range report.Findings {
			if f.Grade == state.OK {
				continue
			}
			refused = refused || f.Check == "configuration"
			messages[f.Found] = true
			addresses[f.Docs] = true
			if f.Docs == "" {
				t.Errorf("%s: %s: has no address", f.Check, f.Found)
			}
		}
		if !refused {
			t.Errorf("report %d: nothing is wrong with the configuration", reports)
		}
	}
	if reports != 1+configurations {
		t.Errorf("%d reports; want one of this node, and one of each of %d configurations", reports, configurations)
	}
	p.open(t, addresses)
	t.Logf("%d reports, %d messages, %d addresses", reports, len(messages), len(addresses))
	if len(messages) < leastMessages {
		t.Errorf("%d messages, want %d or more", len(messages), leastMessages)
	}
}

// explained is a row of a table that explains messages.
type explained struct{ address, row string }

// explanations adds the rows of a page of messages to found, by what they explain.
func explanations(found map[string]explained, page, text string) {
	anchor, inTable := "", false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			inTable = false
			for a := range testkit.Anchors(line) {
				anchor = a
			}
			continue
		}
		switch cell := strings.TrimSpace(strings.Split(line, "|")[1]); {
		case strings.HasPrefix(cell, "message"), strings.HasPrefix(cell, "reason"), // of the Event
			cell == "text", cell == "finding", cell == "symptom":
			inTable = true
		case inTable && !strings.HasPrefix(cell, "---"):
			address := page + "#" + anchor
			found[address+" "+cell] = explained{address, line}
		}
	}
}

// documented: the pages on the node explain each message that the pages of the tree do, below the
// same heading, and the pages that they refer to are there.
func (p pages) documented(t *testing.T) {
	const inTree = "../../docs/troubleshooting"
	entries, err := os.ReadDir(inTree)
	if err != nil {
		t.Fatal(err)
	}
	there, all, addresses := map[string]explained{}, map[string]explained{}, map[string]bool{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(inTree, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		page := messagesFolder + entry.Name()
		explanations(all, page, string(text))
		explanations(there, page, p[page])
	}
	for message, e := range all {
		if there[message] != e {
			t.Errorf("%s does not have the row of %s", e.address, message)
		}
		addresses[e.address] = true
		for _, link := range testkit.Links(e.row) {
			file, anchor, _ := strings.Cut(link, "#")
			address, _, _ := strings.Cut(e.address, "#")
			if file != "" {
				address = path.Join(messagesFolder, file)
			}
			addresses[strings.TrimSuffix(address+"#"+anchor, "#")] = true
		}
	}
	p.open(t, addresses)
	t.Logf("%d messages, %d addresses", len(all), len(addresses))
	if len(all) < leastMessages {
		t.Errorf("%d messages, want %d or more", len(all), leastMessages)
	}
}

// manual matches the address of a manual page.
var manual = regexp.MustCompile(`man:([a-z-]+)\((\d)\)`)

// manualsAreThere: the manual pages that systemctl status and journalctl -x name can be read.
func manualsAreThere(t *testing.T, n *lab.Node) {
	const from = "/usr/lib/systemd/catalog/node-partition.catalog /usr/lib/systemd/system/" + monitorUnit
	found := manual.FindAllStringSubmatch(run(t, n, "cat "+from), -1)
	if len(found) == 0 {
		t.Error("none is named: this test does not find them any more")
	}
	files := map[string]bool{}
	for _, m := range found {
		files[fmt.Sprintf("/usr/share/man/man%[2]s/%[1]s.%[2]s.gz", m[1], m[2])] = true
	}
	for file := range files {
		want(t, n, "test -s "+file+" && echo there || true", "there")
	}
}
