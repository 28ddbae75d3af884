package testkit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// link matches a link of Markdown to a file, with or without an anchor.
	link = regexp.MustCompile(`\]\(([^)\s:]*)\)`)
	// code matches code, which has neither links nor headings, and decoration what an anchor lacks.
	code       = regexp.MustCompile("(?ms)^ *```.*?^ *```|^    .*?$")
	decoration = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Anchors returns the anchors of the headings of a page, as GitHub forms them.
func Anchors(text string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(code.ReplaceAllString(text, "")) {
		if title, ok := heading(line); ok {
			plain := decoration.ReplaceAllString(strings.ToLower(title), "")
			found[strings.ReplaceAll(plain, " ", "-")] = true
		}
	}
	return found
}

// Links returns the links of a page to files and headings, without those to other hosts.
func Links(text string) []string {
	matches := link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1)
	targets := make([]string, 0, len(matches))
	for _, m := range matches {
		targets = append(targets, m[1])
	}
	return targets
}

// heading returns the title in a line, if the line is a heading.
func heading(line string) (title string, ok bool) {
	title = strings.TrimLeft(line, "#")
	return strings.TrimSpace(title), title != line && strings.HasPrefix(title, " ")
}

// Commands returns the commands for a shell in the blocks of code between a heading and the next
// one, in their order:
//
//   - a block is indented, or fenced and marked as sh, bash or console
//   - each line is a command; where some begin with "$ ", these are, and the others are output
//   - a backslash at the end of a line continues it, and <<EOF lasts until EOF
//   - a line of # is left out, and an explanation, which begins after three spaces, too
//
// The page has the heading once.
func Commands(text, title string) ([]string, error) {
	lines, err := below(text, title)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, block := range blocks(lines) {
		commands, err := commandsOf(block)
		if err != nil {
			return nil, fmt.Errorf("below %q: %w", title, err)
		}
		all = append(all, commands...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("below %q: want a block with a command", title)
	}
	return all, nil
}

// below returns the lines between a heading and the next one.
func below(text, title string) ([]string, error) {
	var lines []string
	headings, inside, fenced := 0, false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), fence) {
			fenced = !fenced
		}
		if found, ok := heading(line); ok && !fenced {
			if inside = found == title; inside {
				headings++
			}
			continue
		}
		if inside {
			lines = append(lines, line)
		}
	}
	if headings != 1 {
		return nil, fmt.Errorf("the page has %d headings %q; want one", headings, title)
	}
	return lines, nil
}

const (
	fence  = "```"
	indent = "    "
	prompt = "$ "
)

// shells are the marks of fenced blocks with commands.
var shells = []string{"sh", "bash", "console"}

// blocks returns the blocks of code in lines that may have commands, without their indentation.
func blocks(lines []string) [][]string {
	var all [][]string
	var block []string
	end := func() {
		if len(block) > 0 {
			all = append(all, dedent(block))
		}
		block = nil
	}
	fenced, shell := false, false
	before := "" // the line before, which is blank above an indented block
	for _, line := range lines {
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence:
			end()
			fenced = !fenced
			shell = fenced && slices.Contains(shells, mark)
		case fenced:
			if shell {
				block = append(block, line)
			}
		case strings.HasPrefix(line, indent) && (len(block) > 0 || strings.TrimSpace(before) == ""):
			block = append(block, line)
		case strings.TrimSpace(line) == "" && len(block) > 0:
			block = append(block, "")
		default:
			end()
		}
		before = line
	}
	end()
	return all
}

// dedent removes the indentation that all lines share.
func dedent(lines []string) []string {
	shared := -1
	for _, line := range lines {
		rest := strings.TrimLeft(line, " ")
		if by := len(line) - len(rest); rest != "" && (shared < 0 || by < shared) {
			shared = by
		}
	}
	flush := make([]string, 0, len(lines))
	for _, line := range lines {
		flush = append(flush, line[min(max(shared, 0), len(line)):])
	}
	return flush
}

var (
	// document matches the beginning of a here-document at the end of a line.
	document = regexp.MustCompile(`[^<]<<'?([A-Z]+)'?$`)
	// explanation matches what stands beside a command in a list.
	explanation = regexp.MustCompile(` {3,}\S.*$`)
)

// commandsOf returns the commands of a block.
func commandsOf(block []string) ([]string, error) {
	if prompted := withPrompt(block); len(prompted) > 0 {
		block = prompted
	}
	var all []string
	for i := 0; i < len(block); i++ {
		command := block[i]
		for strings.HasSuffix(command, `\`) && i+1 < len(block) {
			i++
			command += "\n" + block[i]
		}
		if m := document.FindStringSubmatch(command); m != nil {
			length := slices.Index(block[i+1:], m[1])
			if length < 0 {
				return nil, fmt.Errorf("%q: want a line %s at its end", command, m[1])
			}
			end := i + 1 + length
			command += "\n" + strings.Join(block[i+1:end+1], "\n")
			i = end
		} else if !strings.Contains(command, "\n") {
			command = strings.TrimRight(explanation.ReplaceAllString(command, ""), " ")
		}
		if command != "" && !strings.HasPrefix(command, "#") {
			all = append(all, command)
		}
	}
	return all, nil
}

// withPrompt returns the lines with a prompt, without it.
func withPrompt(block []string) []string {
	var lines []string
	for _, line := range block {
		if command, ok := strings.CutPrefix(line, prompt); ok {
			lines = append(lines, command)
		}
	}
	return lines
}
