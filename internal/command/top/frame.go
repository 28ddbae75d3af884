package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/oneline"
	"nodepartition/internal/terminal"
)

// title is the style of the first line.
var title = ansi.Style{}.Bold()

// keys is the line at the end of the screen.
const keys = "q quit   left, right minute   PgUp, PgDn hour   End now   up, down pods"

// frame returns the lines of a scene for a screen of a size, scrolled down by a number of lines.
// hint stands in place of the keys. No line is longer than width, and there are at most height.
func frame(v scene, width, height, scroll int, hint string) []string {
	head, body := parts(v, width)
	room := max(0, height-len(head)-1)
	body = body[min(max(0, scroll), max(0, len(body)-room)):]
	all := slices.Concat(head, body[:min(room, len(body))])
	if len(all) < height {
		all = append(all, terminal.Faint.Styled(hint))
	}
	all = all[:min(height, len(all))]
	for i := range all {
		all[i] = ansi.Truncate(all[i], width, "")
	}
	return all
}

// parts returns the lines that are always shown, and those that can be scrolled.
func parts(v scene, width int) (head, body []string) {
	head = append(make([]string, 0, 1+len(v.Notes)), title.Styled("node-partition top, "+when(v)))
	for _, n := range v.Notes {
		head = append(head, styled(terminal.Alarm, n.Bad, oneline.Terminal(n.Text)))
	}
	for i := range v.Partitions {
		body = append(body, lines(&v.Partitions[i], width)...)
	}
	if len(v.Partitions) == 0 && !v.Past {
		body = append(body, "", "No partition is active.")
	}
	return head, body
}

// hidden returns the number of lines of a scene for which a screen has no room.
func hidden(v scene, width, height int) int {
	head, body := parts(v, width)
	return max(0, len(body)-max(0, height-len(head)-1))
}

// styled returns a text, with a style if it is wanted.
func styled(s ansi.Style, wanted bool, text string) string {
	if !wanted {
		return text
	}
	return s.Styled(text)
}

func when(v scene) string {
	if v.Past {
		return v.At.Local().Format(time.DateTime) + ", from the history"
	}
	return v.At.Local().Format(time.TimeOnly)
}

// lines returns the lines of a partition.
func lines(p *partition, width int) []string {
	head := fmt.Sprintf("%s  used %s", p.Name, amount(p.Used, p.Limit))
	if p.Peak > 0 {
		head += ", at most " + bytesize.Text(p.Peak)
	}
	if p.Unread {
		head = string(p.Name) + "  the memory is not known"
	} else {
		head += "; " + p.State
	}
	if p.Misplaced > 0 {
		head += fmt.Sprintf("; %d misplaced", p.Misplaced)
	}
	all := []string{"", styled(terminal.Alarm, p.Bad, head)}
	if p.Limit > 0 && !p.Unread {
		all = append(all, styled(terminal.Alarm, p.Bad, bar(p, width)))
	}
	for _, event := range p.Events {
		all = append(all, "  "+oneline.Terminal(event))
	}
	if p.NoPods != "" {
		return append(all, "  no pods shown: "+oneline.Terminal(p.NoPods))
	}
	if len(p.Pods) > 0 {
		all = append(all, terminal.Faint.Styled(fmt.Sprintf(row, "USES", "REQUESTS", "PRIORITY", "POD")))
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		name := oneline.Terminal(pod.Namespace + "/" + pod.Name)
		if pod.Spared != "" {
			name += " (not evicted: " + oneline.Terminal(pod.Spared) + ")"
		}
		uses, requests := bytesize.Text(pod.Uses), bytesize.Text(pod.Requests)
		all = append(all, fmt.Sprintf(row, uses, requests, fmt.Sprint(pod.Priority), name))
	}
	return all
}

// row is the format of a pod. Its name is last, because it may be long.
const row = "  %8s  %8s  %11s  %s"

func amount(used, limit uint64) string {
	if limit == 0 {
		return bytesize.Text(used)
	}
	return fmt.Sprintf("%s of %s", bytesize.Text(used), bytesize.Text(limit))
}

// bar draws the usage, #, and the highest usage of the last minutes, -, between nothing and the
// limit. | is the threshold.
func bar(p *partition, width int) string {
	cells := min(width, 80) - len("[]")
	if cells <= 0 {
		return ""
	}
	at := func(bytes uint64) int {
		return int(float64(min(bytes, p.Limit)) / float64(p.Limit) * float64(cells))
	}
	used := at(p.Used)
	text := strings.Repeat("#", used) + strings.Repeat("-", max(0, at(p.Peak)-used))
	text += strings.Repeat(" ", cells-len(text))
	if mark := at(p.Limit - min(p.Limit, p.Threshold)); p.Threshold > 0 && mark < cells {
		text = text[:mark] + "|" + text[mark+1:]
	}
	return "[" + text + "]"
}
