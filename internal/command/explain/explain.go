// Package explain shows the pages about checks and messages, which the program holds.
package explain

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"node-partition.io/node-partition/docs"
	"node-partition.io/node-partition/internal/output"
)

const folder = "troubleshooting"

// Names returns the names of the pages, sorted.
func Names() []string {
	pages, err := docs.Troubleshooting.ReadDir(folder)
	if err != nil {
		panic(err) // it is part of the program
	}
	names := make([]string, 0, len(pages))
	for _, page := range pages {
		names = append(names, strings.TrimSuffix(page.Name(), ".md"))
	}
	return names
}

// reasons is the page of the reasons for which status shows a pod outside of its partition.
const reasons = "placement"

// Page returns the page that explains a name: that of a page, or of a reason.
func Page(name string) (page string, ok bool) {
	if slices.Contains(Names(), name) {
		return name, true
	}
	text, err := docs.Troubleshooting.ReadFile(path.Join(folder, reasons+".md"))
	return reasons, err == nil && strings.Contains(string(text), "\n| `"+name+"` |")
}

var (
	// link is a link of Markdown, of which the text is shown, and anchor what another leads to.
	link   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	anchor = regexp.MustCompile(`<a id=[^>]*></a>`)
	// head is the head of a table of messages, which is the same on each page.
	head = regexp.MustCompile(`(?m)^\| [^|]* \| [^|]* \|\n\|--.*\n`)
	// verbatim matches a line that is written as it is: a heading, or code.
	verbatim = regexp.MustCompile("^(#|    )")
)

// Write writes a page for people: paragraphs are wrapped, and the rows of a table of messages
// become entries of a list.
func Write(w io.Writer, name string) error {
	page, err := docs.Troubleshooting.ReadFile(path.Join(folder, name+".md"))
	if err != nil {
		return err
	}
	text := head.ReplaceAllString(anchor.ReplaceAllString(link.ReplaceAllString(string(page), "$1"), ""), "")
	paragraph, code := "", false
	end := func() {
		if paragraph != "" {
			fmt.Fprintln(w, output.Terminal{Width: output.Readable}.Wrap(paragraph))
		}
		paragraph = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			code = !code
		case code:
			fmt.Fprintln(w, "    "+line)
		case verbatim.MatchString(line) || line == "":
			end()
			fmt.Fprintln(w, line)
		case strings.HasPrefix(line, "|--"):
		case strings.HasPrefix(line, "| "):
			end()
			fmt.Fprintln(w, output.Terminal{Width: output.Readable}.Wrap("- "+cells[0]))
			for _, cell := range cells[1:] {
				fmt.Fprintln(w, output.Terminal{Width: output.Readable}.Wrap("    "+cell))
			}
		case strings.HasPrefix(line, "- "):
			end()
			paragraph = line
		default:
			paragraph = strings.TrimSpace(paragraph + " " + strings.TrimSpace(line))
		}
	}
	end()
	return nil
}
