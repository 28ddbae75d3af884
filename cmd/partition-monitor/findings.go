package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/oneline"
)

const flagIgnore = "ignore"

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "check the configuration and the node: what is wrong and what to change; exit status 1 where something is wrong",
		Flags: append(append(socketFlags(), evictionFlags()...),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "text or json", Value: "text"},
			&cli.StringSliceFlag{Name: flagIgnore, Usage: "`NAME` of a check whose errors and warnings do not count; more than once, or a list"}),
		Action: func(c *cli.Context) error {
			likeService(c, cgroupfs.Mount, "/proc")
			if _, err := moveMode(c); err != nil {
				return err
			}
			eviction, err := readEvictionFlags(c)
			if err != nil {
				return err
			}
			write := writeFindings
			switch c.String("output") {
			case "text":
			case "json":
				write = writeFindingsJSON
			default:
				return usageError{fmt.Errorf("--output=%s: want text or json", c.String("output"))}
			}
			ignored := c.StringSlice(flagIgnore)
			for _, name := range ignored {
				if !slices.ContainsFunc(allChecks, func(k check) bool { return k.name == name }) {
					return usageError{fmt.Errorf("--%s=%s: want one of %s", flagIgnore, name, strings.Join(checkNames(), ", "))}
				}
			}
			found := checkNode(c.Context, &checks{
				runtime: &runtimeClient{endpoint: c.String(flagRuntime), kubelets: kubeletsEndpoint, connected: func(bool) {}},
				nri:     c.String(flagNRI), podsAPI: c.String(flagPods), listen: c.String(flagListen), cgroups: cgroupfs.Mount, eviction: eviction,
			})
			wrong := false
			for i := range found {
				if found[i].Grade != gradeOK && slices.Contains(ignored, found[i].Check) {
					found[i].Grade = gradeIgnored
				}
				wrong = wrong || found[i].Grade == gradeError
			}
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			if wrong {
				return problemsFound{}
			}
			return nil
		},
	}
}

// problemsFound makes the exit status 1; what was found has been shown.
type problemsFound struct{}

func (problemsFound) Error() string { return "problems were found" }

type grade string

const (
	gradeOK      grade = "ok"
	gradeWarning grade = "warning"
	gradeError   grade = "error"
	// gradeIgnored is a warning or an error that the user does not want to hear of.
	gradeIgnored grade = "ignored"
)

// finding is what a check has found. Its JSON is for scripts: fields are added, not changed.
type finding struct {
	// Check is the name of the check. One check may find several things.
	Check string `json:"check"`
	Grade grade  `json:"grade"`
	// Found is what is there, or what is wrong.
	Found string `json:"found"`
	// Change is what to do about it; empty where Found says it, or where nothing is to be done.
	Change string `json:"change,omitempty"`
	// Docs is where it is explained.
	Docs string `json:"docs,omitempty"`
	// Looked are the files that were looked at.
	Looked []kubeletconfig.Look `json:"looked,omitempty"`
}

// checkNode goes from the configuration to the node, in the order in which an operator meets things.
func checkNode(ctx context.Context, c *checks) []finding {
	var found []finding
	for _, k := range allChecks {
		for _, f := range k.look(c, ctx) {
			f.Check = k.name
			if f.Grade != gradeOK {
				f.Docs = k.docs
			}
			found = append(found, f)
		}
		if c.yields {
			break // nothing of the rest is ours
		}
	}
	return found
}

func writeFindings(w io.Writer, found []finding) error {
	var text strings.Builder
	for _, f := range found {
		fmt.Fprintf(&text, "%-8s%s: %s\n", f.Grade, f.Check, oneline.Terminal(f.Found))
		for _, l := range f.Looked {
			fmt.Fprintf(&text, "        looked at: %s: %s\n", oneline.Terminal(l.Path), oneline.Terminal(l.Result))
		}
		if f.Change != "" {
			fmt.Fprintf(&text, "        change: %s\n", oneline.Terminal(f.Change))
		}
		if f.Docs != "" {
			fmt.Fprintf(&text, "        see: %s\n", f.Docs)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeFindingsJSON(w io.Writer, found []finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Findings []finding `json:"findings"`
	}{append([]finding{}, found...)})
}

// served reports whether a process has a stream socket, and does not connect to it: containerd logs an error for who does and registers no NRI plugin.
// A datagram socket cannot connect to it, and is told so where there is one to connect to (unix_find_bsd, net/unix/af_unix.c of the kernel).
func served(ctx context.Context, socket string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", socket)
	if errors.Is(err, unix.EPROTOTYPE) {
		return nil
	}
	if err == nil {
		return errors.Join(fmt.Errorf("%s: a datagram socket", socket), conn.Close())
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		failed.Net = "unix"
	}
	return err
}
