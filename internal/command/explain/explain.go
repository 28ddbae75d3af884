// Package explain shows the pages about checks and messages, which the program holds.
package explain

import (
	"fmt"
	"io"
	"path"
	"regexp"
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

// read returns a page, or of the page of reasons the row of one. It returns "" for another name.
func read(name string) string {
	if text, err := docs.Troubleshooting.ReadFile(path.Join(folder, name+".md")); err == nil {
		return string(text)
	}
	text, err := docs.Troubleshooting.ReadFile(path.Join(folder, reasons+".md"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `"+name+"` |") {
			return line
		}
	}
	return ""
}

// Known reports whether Write has something about a name: a page or a reason.
func Known(name string) bool { return read(name) != "" }

var (
	// link is a link of Markdown, of which the text is shown, and anchor what another leads to.
	link   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	anchor = regexp.MustCompile(`<a id=[^>]*></a>`)
	// head is the head of a table of messages, which is the same on each page.
	head = regexp.MustCompile(`(?m)^\| [^|]* \| [^|]* \|\n\|--.*\n`)
	// verbatim matches a line that is written as it is: a heading, or code.
	verbatim = regexp.MustCompile("^(#|    )")
)

// Write writes a page, or what it has about a reason, for people: paragraphs are wrapped, and the
// rows of a table of messages become entries of a list.
func Write(w io.Writer, name string) error {
	text := head.ReplaceAllString(anchor.ReplaceAllString(link.ReplaceAllString(read(name), "$1"), ""), "")
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
