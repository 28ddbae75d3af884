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
	for _, title := range Headings(text) {
		plain := decoration.ReplaceAllString(strings.ToLower(title), "")
		found[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return found
}

// Headings returns the headings of a page, in their order.
func Headings(text string) []string {
	var titles []string
	for line := range strings.Lines(code.ReplaceAllString(text, "")) {
		if title, ok := heading(line); ok {
			titles = append(titles, title)
		}
	}
	return titles
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

// Step is a command of a page, and what it prints.
type Step struct {
	Command string
	// Shows has the lines that the page shows below the command. It is empty where it shows none.
	Shows string
}

// Steps returns the commands for a shell in the blocks of code between a heading and the next one,
// in their order:
//
//   - a block is indented, or fenced and marked as sh, bash or console
//   - each line is a command; where some begin with "$ ", these are, and the others are what the
//     command above them prints
//   - a backslash at the end of a line continues it, and <<EOF lasts until EOF
//   - a line of # is left out, and an explanation, which begins after three spaces, too
//   - a paragraph that begins with "Not run here" leaves out the blocks below it
//
// The page has the heading once.
func Steps(text, title string) ([]Step, error) {
	lines, err := below(text, title)
	if err != nil {
		return nil, err
	}
	if unrun := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, notRun) }); unrun >= 0 {
		lines = lines[:unrun]
	}
	var all []Step
	for _, block := range blocks(lines) {
		steps, err := stepsOf(block)
		if err != nil {
			return nil, fmt.Errorf("below %q: %w", title, err)
		}
		all = append(all, steps...)
	}
	return all, nil
}

// Commands returns the commands of Steps. There is one at least.
func Commands(text, title string) ([]string, error) {
	steps, err := Steps(text, title)
	if err == nil && len(steps) == 0 {
		err = fmt.Errorf("below %q: want a block with a command", title)
	}
	commands := make([]string, 0, len(steps))
	for _, s := range steps {
		commands = append(commands, s.Command)
	}
	return commands, err
}

// Printed reports whether a command has printed what the page shows. There "..." stands for the
// rest of a line, and a line of it for any lines. Spaces count as one, because a column is as wide
// as its widest value.
func (s Step) Printed(output string) bool {
	if s.Shows == "" {
		return true
	}
	pattern := regexp.QuoteMeta(oneSpace(s.Shows))
	pattern = regexp.MustCompile(`(?m)^\\.\\.\\.$\n?`).ReplaceAllLiteralString(pattern, `(?:.*\n)*`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(oneSpace(output))
}

// oneSpace returns the lines of a text with one space for several, and with none at the ends.
func oneSpace(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return strings.Trim(all.String(), "\n") + "\n"
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
	notRun = "Not run here"
)

// shells are the marks of fenced blocks with commands.
var shells = []string{"sh", "bash", "console"}

// blocks returns the blocks of code in lines that may have commands, without their indentation.
func blocks(lines []string) [][]string {
	var all [][]string
	var block []string
	end := func() {
		for len(block) > 0 && block[len(block)-1] == "" {
			block = block[:len(block)-1]
		}
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
	// document matches the beginning of a here-document.
	document = regexp.MustCompile(`[^<]<<'?([A-Z]+)'?( |$)`)
	// explanation matches what stands beside a command in a list.
	explanation = regexp.MustCompile(` {3,}\S.*$`)
)

// stepsOf returns the commands of a block.
func stepsOf(block []string) ([]Step, error) {
	prompted := slices.ContainsFunc(block, func(line string) bool { return strings.HasPrefix(line, prompt) })
	var all []Step
	for i := 0; i < len(block); i++ {
		command, begins := strings.CutPrefix(block[i], prompt)
		if prompted && !begins {
			if len(all) > 0 {
				all[len(all)-1].Shows += command + "\n"
			}
			continue
		}
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
			all = append(all, Step{Command: command})
		}
	}
	return all, nil
}
