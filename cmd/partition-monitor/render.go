package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/command/render"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/text"
)

const (
	flagType           = "type"
	flagRole           = "role"
	flagAPIVersion     = "api-version"
	flagValidatingOnly = "validating-only"
	flagRequireMonitor = "require-monitor"
	flagSelector       = "selector"
	flagRemove         = "remove"
)

// rendered is a form of the command render.
type rendered struct {
	name string
	// flags lists the flags that the form takes.
	flags []string
	// takesFile means that the form reads a file or standard input.
	takesFile bool
	write     func(c *cli.Context, n host.Node, file string) error
}

func renderings() []rendered {
	return []rendered{
		{name: "pod", flags: []string{flagType}, takesFile: true, write: renderPod},
		{name: "pinning", flags: []string{flagType}, write: renderFile(render.Pinning)},
		{name: "crio", flags: []string{flagType}, write: renderFile(render.CRIO)},
		{name: "machineconfig", flags: []string{flagType, flagRole}, write: renderMachineConfig},
		{name: "butane", flags: []string{flagType}, write: renderFile(render.Butane)},
		{
			name: "admission",
			flags: []string{
				flagType, flagConfig, node.FlagKubeconfig, flagSelector, flagAPIVersion, flagValidatingOnly,
				flagRequireMonitor, flagRemove,
			},
			write: renderAdmission,
		},
	}
}

func renderCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:      "render",
		ArgsUsage: "WHAT [FILE]",
		Usage:     "print what is applied elsewhere for workload types",
		Description: "WHAT is " + alternatives(renderingNames()) +
			". pod converts the manifest of a static pod, FILE or standard input.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{
				Name: flagType,
				Usage: "only this workload `TYPE` of the configuration; more than once for several; " +
					"for pod: the type to ask for, if the manifest asks for none",
			},
			&cli.StringFlag{Name: flagRole, Usage: "for machineconfig: the `ROLE` of the machines", Value: "master"},
			&cli.StringFlag{
				Name:  node.FlagKubeconfig,
				Usage: "for admission: the kubeconfig `FILE` of a user who may list nodes; an error if a node lacks the resource of a type",
			},
			&cli.StringFlag{
				Name: flagAPIVersion,
				Usage: "for admission: the `VERSION` of MutatingAdmissionPolicy, v1 or v1beta1 " +
					"(default: what the cluster of --kubeconfig serves, or v1)",
			},
			&cli.BoolFlag{
				Name:  flagValidatingOnly,
				Usage: "for admission: leave out the policies that change pods, for API servers that have none",
			},
			&cli.BoolFlag{
				Name: flagRequireMonitor,
				Usage: "for admission: annotate members, so that a runtime with NRI's default validator starts none " +
					"of their containers while the monitor is away",
			},
			&cli.StringSliceFlag{
				Name: flagConfig,
				Usage: "for admission: a `FILE` with the sections of other nodes, in place of this node's configuration; " +
					"more than once: one for each pool of nodes",
			},
			&cli.StringFlag{
				Name:  flagSelector,
				Usage: "for admission with --kubeconfig: only the Nodes with these `LABELS` need the resources, such as pool=a",
			},
			&cli.BoolFlag{
				Name:  flagRemove,
				Usage: "for admission: print the names of all objects, for kubectl delete --ignore-not-found -f -",
			},
		},
		Action: func(c *cli.Context) error {
			args, err := arguments(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return usageError{fmt.Errorf("render: want %s", alternatives(renderingNames()))}
			}
			all := renderings()
			at := slices.IndexFunc(all, func(r rendered) bool { return r.name == args[0] })
			if at == -1 {
				return usageError{fmt.Errorf("render %s: want %s", args[0], alternatives(renderingNames()))}
			}
			return all[at].run(c, n, args[1:])
		},
	}
}

func renderingNames() []string {
	all := renderings()
	names := make([]string, 0, len(all))
	for _, r := range all {
		names = append(names, r.name)
	}
	return names
}

func (r rendered) run(c *cli.Context, n host.Node, args []string) error {
	for _, name := range c.LocalFlagNames() {
		if !slices.Contains(r.flags, name) {
			return usageError{fmt.Errorf("render %s: does not take --%s", r.name, name)}
		}
	}
	file := "-"
	switch {
	case len(args) == 1 && r.takesFile:
		file = args[0]
	case len(args) > 0:
		return usageError{fmt.Errorf("render %s: unexpected argument %q", r.name, args[len(args)-1])}
	}
	return r.write(c, n, file)
}

func renderPod(c *cli.Context, _ host.Node, file string) error {
	types := c.StringSlice(flagType)
	if len(types) > 1 {
		return usageError{fmt.Errorf("--%s: want one type for a pod", flagType)}
	}
	name, manifest, err := readInput(c.App.Reader, file, maxManifest)
	if err != nil {
		return err
	}
	converted, warning, err := render.Pod(manifest, strings.Join(types, ""))
	if err != nil {
		return fmt.Errorf("%s: %w", text.Terminal(name), err)
	}
	if warning != "" {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s: %s\n", text.Terminal(name), text.Terminal(warning))
	}
	_, err = c.App.Writer.Write(converted)
	return err
}

// renderFile returns the form that writes a file for the node's types.
func renderFile(text func([]render.Workload) (string, error)) func(*cli.Context, host.Node, string) error {
	return func(c *cli.Context, n host.Node, _ string) error {
		all, err := render.Workloads(n, c.StringSlice(flagType))
		if err != nil {
			return err
		}
		written, err := text(all)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.App.Writer, written)
		return err
	}
}

func renderMachineConfig(c *cli.Context, n host.Node, file string) error {
	role := c.String(flagRole)
	if !isLabel(role) {
		return usageError{fmt.Errorf("--%s=%s: want a name of lower case letters, digits and -", flagRole, role)}
	}
	return renderFile(func(all []render.Workload) (string, error) { return render.MachineConfig(all, role) })(c, n, file)
}

func renderAdmission(c *cli.Context, n host.Node, _ string) error {
	o := render.AdmissionOptions{
		Node: n, Files: c.StringSlice(flagConfig), Types: c.StringSlice(flagType),
		Kubeconfig: c.String(node.FlagKubeconfig),
		Selector:   c.String(flagSelector), APIVersion: c.String(flagAPIVersion), ValidatingOnly: c.Bool(flagValidatingOnly),
		Required: c.Bool(flagRequireMonitor), Remove: c.Bool(flagRemove),
	}
	switch {
	case o.Required && o.ValidatingOnly:
		return usageError{fmt.Errorf("--%s: changes pods, so not with --%s", flagRequireMonitor, flagValidatingOnly)}
	case !slices.Contains([]string{"", admission.PolicyV1, admission.PolicyV1Beta1}, o.APIVersion):
		return usageError{fmt.Errorf("--%s=%s: want %s or %s",
			flagAPIVersion, o.APIVersion, admission.PolicyV1, admission.PolicyV1Beta1)}
	case c.IsSet(node.FlagKubeconfig) && o.Kubeconfig == "":
		return usageError{fmt.Errorf("--%s: want a file", node.FlagKubeconfig)}
	case o.Selector != "" && o.Kubeconfig == "":
		return usageError{fmt.Errorf("--%s: needs --%s", flagSelector, node.FlagKubeconfig)}
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return usageError{fmt.Errorf("--%s=%s: %w", flagSelector, o.Selector, err)}
	}
	manifests, warnings, err := render.Admission(c.Context, o)
	for _, warning := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", text.Terminal(warning))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.App.Writer, manifests)
	return err
}

// isLabel reports whether a name is an RFC 1123 label.
func isLabel(name string) bool { return len(content.IsDNS1123Label(name)) == 0 }
