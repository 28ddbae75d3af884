package kubeletargs

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"nodepartition/internal/hostfs"
)

// OfUnit returns the flags that the unit files of the kubelet give it, for a kubelet that does not
// run. files lists the files in the order in which systemd applies them, drop-ins last. A file that
// cannot be read gives none.
//
// It follows systemd.service(5) as far as flags need it: specifiers are not replaced, and
// environment variables of systemd itself do not count.
func OfUnit(root hostfs.FS, files []string) Flags {
	var u unit
	for _, name := range files {
		if text, err := root.ReadFile(name, maxBytes); err == nil {
			u.read(string(text))
		}
	}
	args := u.args(root)
	return parse(args[min(1, len(args)):])
}

// unit holds the settings of a service that make its command line.
type unit struct {
	start              string
	environment, files []string
}

// read adds the settings of a file, which override earlier ones or add to them.
func (u *unit) read(text string) {
	section := ""
	eachLine(text, func(line string) {
		if strings.HasPrefix(line, "[") {
			section = line
			return
		}
		name, value, _ := strings.Cut(line, "=")
		if section == "[Service]" {
			u.set(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	})
}

// eachLine calls f with each line that is not empty and no comment. A backslash at the end of a
// line joins it with the next one (systemd.syntax(7)).
func eachLine(text string, f func(line string)) {
	begun := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if part, goesOn := strings.CutSuffix(line, `\`); goesOn {
			begun += part + " "
			continue
		}
		if line, begun = begun+line, ""; line != "" {
			f(line)
		}
	}
	if begun = strings.TrimSpace(begun); begun != "" {
		f(begun)
	}
}

// set applies a setting. An empty value ends what was set before.
func (u *unit) set(name, value string) {
	switch name {
	case "ExecStart":
		u.start = value
	case "Environment":
		u.environment = added(u.environment, words(value))
	case "EnvironmentFile":
		u.files = added(u.files, words(value))
	}
}

func added(list, more []string) []string {
	if len(more) == 0 {
		return nil
	}
	return append(list, more...)
}

// args returns the command line with its variables replaced. Those of files come before the others.
func (u *unit) args(root hostfs.FS) []string {
	values := map[string]string{}
	assign := func(assignment string) {
		name, value, _ := strings.Cut(assignment, "=")
		values[strings.TrimSpace(name)] = value
	}
	for _, assignment := range u.environment {
		assign(assignment)
	}
	for _, name := range u.files {
		// One that is missing, and that "-" does not allow to be, keeps the kubelet from starting.
		if text, err := root.ReadFile(strings.TrimPrefix(name, "-"), maxBytes); err == nil {
			eachLine(string(text), func(line string) { assign(strings.Join(words(line), " ")) })
		}
	}
	var args []string
	for _, word := range words(u.start) {
		if name, ok := strings.CutPrefix(word, "$"); ok && isName(name) {
			args = append(args, words(values[name])...)
			continue
		}
		args = append(args, os.Expand(word, func(name string) string { return values[name] }))
	}
	return args
}

// isName reports whether a text is the name of an environment variable.
func isName(text string) bool {
	return text != "" && !slices.ContainsFunc([]rune(text), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// words splits a text at white space, and removes quotes and backslashes.
func words(text string) []string {
	var all []string
	var word strings.Builder
	begun, escaped, quote := false, false, rune(0)
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			begun, escaped = true, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			begun, quote = true, r
		case quote == 0 && unicode.IsSpace(r):
			if begun {
				all = append(all, word.String())
			}
			begun = false
			word.Reset()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}
