package kubelet

import (
	"regexp"
	"strings"

	"github.com/kballard/go-shellquote"

	"node-partition.io/node-partition/internal/host"
)

// Command is the command line of the kubelet's service as systemd holds it, which is empty if there
// is no such service. systemd has replaced specifiers, and not variables.
type Command struct {
	// Args is ExecStart=, with the name of the program.
	Args []string
	// Environment has the assignments of Environment=, and Files the paths of EnvironmentFile=.
	Environment, Files []string
}

// Flags returns the flags that the kubelet will have when its service starts. A file that cannot be
// read sets no variable.
func (c Command) Flags(root host.Root) Flags {
	args := c.expanded(root)
	return parse(args[min(1, len(args)):])
}

// The two ways to write a variable.
var (
	ownWord = regexp.MustCompile(`^\$(\w+)$`)
	inWord  = regexp.MustCompile(`\$\{\w+\}`)
)

// expanded returns the arguments with the values of variables, by systemd.service(5), "Command
// lines": a lone $NAME becomes the words of the value, and ${NAME} its text.
func (c Command) expanded(root host.Root) []string {
	values := c.values(root)
	var args []string
	for _, word := range c.Args {
		if name := ownWord.FindStringSubmatch(word); name != nil {
			words, _ := shellquote.Split(values[name[1]]) // of a quote without an end: the words before it
			args = append(args, words...)
			continue
		}
		args = append(args, inWord.ReplaceAllStringFunc(word, func(name string) string {
			return values[name[len("${"):len(name)-len("}")]]
		}))
	}
	return args
}

// values returns the environment variables. Those of files come before the others
// (systemd.exec(5), EnvironmentFile=).
func (c Command) values(root host.Root) map[string]string {
	values := map[string]string{}
	assign := func(assignment string) {
		name, value, _ := strings.Cut(assignment, "=")
		values[strings.TrimSpace(name)] = value
	}
	//guard: variables in the files of a unit come before its own
	for _, assignment := range c.Environment {
		assign(assignment)
	}
	for _, name := range c.Files {
		text, err := root.ReadFile(name, maxBytes)
		if err != nil {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			words, _ := shellquote.Split(line)
			assign(strings.Join(words, " "))
		}
	}
	return values
}
