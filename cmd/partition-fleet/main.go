// Command partition-fleet gives the nodes of a cluster their system partitions, or takes them away:
// it makes a Job for each node, a share of them at a time, and stops at failures. It has no right
// on any node but to write its labels.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodepartition/internal/command/validate"
	"nodepartition/internal/fleet"
	"nodepartition/internal/fleet/cluster"
	"nodepartition/internal/fleet/dispatch"
)

// version is set by the Makefile, from git.
var version = "unknown"

const usage = `Usage: partition-fleet COMMAND --namespace=NAME --release=NAME [OPTION...]

Gives the nodes of a cluster their system partitions by a Job on each, a share of
the nodes at a time, and stops at failures. Killed, it continues when it is started
again with the same options. docs/fleet-dispatcher.md explains it.

Commands:
  roll       all nodes that are selected
  add        the selected nodes that no roll has seen. It gives way to a roll
  uninstall  take the partition and the programs off all nodes that have them

Options:
`

// options holds the command line.
type options struct {
	action                               fleet.Action
	place                                cluster.Place
	config, section, job, image, release string
	revision                             int
	kubeconfig, terminationLog           string
}

// actions has the commands.
var actions = map[string]fleet.Action{"roll": fleet.Install, "add": fleet.Add, "uninstall": fleet.Uninstall}

// codePanic is the exit status after a panic. Go's own is 2, by which a Job would take it for a
// wrong command line, which nothing repeats.
const codePanic = 70

func main() {
	os.Exit(exitStatus())
}

// exitStatus runs the program, and returns its exit status, also after a panic.
func exitStatus() (code int) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "partition-fleet: panic: %v\n%s", problem, debug.Stack())
			code = codePanic
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr, connection)
}

// connection returns how the API server is reached: as the ServiceAccount of the pod, or by a
// kubeconfig.
func connection(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// run runs the program, and returns its exit status, one of fleet's codes.
func run(
	ctx context.Context, args []string, stdout, stderr io.Writer, connect func(kubeconfig string) (*rest.Config, error),
) int {
	var o options
	flags := o.flags()
	if len(args) > 0 {
		switch args[0] {
		case "--help", "-h", "help":
			fmt.Fprint(stdout, usage)
			flags.SetOutput(stdout)
			flags.PrintDefaults()
			return fleet.CodeDone
		case "--version":
			fmt.Fprintln(stdout, "partition-fleet", version)
			return fleet.CodeDone
		}
	}
	say := func(line string) { fmt.Fprintln(stderr, "partition-fleet: "+line) }
	err := o.parse(flags, args)
	var d dispatch.Options
	if err == nil {
		d, err = o.prepare(connect)
	}
	var report dispatch.Report
	switch refusal := (refused)(""); {
	case errors.As(err, &refusal):
		report = dispatch.Report{Code: fleet.CodeRefused, Lines: strings.Split(string(refusal), "\n")}
	case err != nil:
		report = dispatch.Report{Code: fleet.CodeUsage, Lines: []string{err.Error() + "; see partition-fleet --help"}}
	default:
		d.Say = say
		report = dispatch.Run(ctx, d)
	}
	for _, line := range report.Lines {
		say(line)
	}
	if err := writeMessage(o.terminationLog, fleet.Termination(report.Lines)); err != nil {
		say(err.Error())
	}
	return report.Code
}

// refused is a refusal that needs no more words.
type refused string

func (r refused) Error() string { return string(r) }

// writeMessage writes the termination message, if the kubelet has made its file.
func writeMessage(path, message string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = file.WriteString(message)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("--termination-log: %w", err)
	}
	return nil
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("partition-fleet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&o.place.Namespace, "namespace", "", "`NAME` of the namespace of the Jobs and the ConfigMap")
	flags.StringVar(&o.place.LockNamespace, "lock-namespace", "kube-system",
		"`NAME` of the namespace of the Lease that is the lock, the same for all releases of a cluster")
	flags.StringVar(&o.place.ConfigMap, "configmap", "node-partition", "`NAME` of the ConfigMap with which the Jobs are collected")
	flags.StringVar(&o.release, "release", "", "`NAME` of the release, or NAMESPACE/NAME")
	flags.IntVar(&o.revision, "revision", 1, "`NUMBER` of this roll-out of the release. Another number is another roll, in which what failed is tried again")
	flags.StringVar(&o.config, "config", "/config/roll.yaml", "`FILE` with the settings of the roll")
	flags.StringVar(&o.section, "section", "", "`FILE` that each node gets as /etc/kubernetes/node-partition.yaml (section.yaml beside --config)")
	flags.StringVar(&o.job, "job", "", "`FILE` with the Job of which each node gets a copy (job.yaml beside --config, for uninstall uninstall.yaml)")
	flags.StringVar(&o.image, "image", "", "`IMAGE` of containers that name none in the Job")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` with the credentials, outside of a pod")
	flags.StringVar(&o.terminationLog, "termination-log", "/dev/termination-log",
		"`FILE` that is given the result, if it exists")
	return flags
}

// parse reads the command line.
func (o *options) parse(flags *flag.FlagSet, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return errors.New("no command: want roll, add or uninstall")
	}
	var known bool
	if o.action, known = actions[args[0]]; !known {
		return errors.New("unknown command; want roll, add or uninstall")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return errors.New("want options only after the command")
	case o.place.Namespace == "" || o.release == "":
		return errors.New("--namespace and --release: both are needed")
	case o.revision < 1:
		return errors.New("--revision: want a number from 1 on")
	}
	beside := filepath.Dir(o.config)
	if o.section == "" {
		o.section = filepath.Join(beside, "section.yaml")
	}
	if o.job == "" {
		o.job = filepath.Join(beside, "job.yaml")
		if o.action == fleet.Uninstall {
			o.job = filepath.Join(beside, "uninstall.yaml")
		}
	}
	if !strings.Contains(o.release, "/") {
		o.release = o.place.Namespace + "/" + o.release
	}
	return nil
}

// prepare reads the files and makes the client.
func (o *options) prepare(connect func(string) (*rest.Config, error)) (dispatch.Options, error) {
	var none dispatch.Options
	data, err := os.ReadFile(o.config)
	if err != nil {
		return none, fmt.Errorf("--config: %w", err)
	}
	settings, err := fleet.ParseSettings(o.config, data)
	if err != nil {
		return none, err
	}
	section, err := o.readSection()
	if err != nil {
		return none, err
	}
	if data, err = os.ReadFile(o.job); err != nil {
		return none, fmt.Errorf("--job: %w", err)
	}
	template, err := fleet.ParseTemplate(o.job, data, o.image, o.action, settings)
	if err != nil {
		return none, err
	}
	config, err := connect(o.kubeconfig)
	if err != nil {
		return none, fmt.Errorf("credentials for the API server: %w; outside of a pod, name them with --kubeconfig", err)
	}
	client, err := cluster.New(config, o.place)
	if err != nil {
		return none, err
	}
	host, err := os.Hostname()
	if err != nil {
		return none, err
	}
	hash := fleet.SectionHash(section)
	id := func(a fleet.Action) string { return fleet.RollID(settings.Version, hash, a, o.release, o.revision) }
	claim := fleet.Claim{Release: o.release, Revision: o.revision, Action: o.action, Roll: id(o.action)}
	if o.action == fleet.Add {
		claim.Roll = id(fleet.Install)
	}
	return dispatch.Options{
		Client: client, Claim: claim, Template: template, Holder: host + "_" + rand.Text(),
		Plan: fleet.Plan{
			Action: o.action, Roll: id(o.action), Version: settings.Version, Section: hash,
			Settings: settings, Deadline: template.Deadline(),
		},
	}, nil
}

// readSection reads the section, and refuses one that the nodes would refuse. A removal needs none.
func (o *options) readSection() ([]byte, error) {
	data, err := os.ReadFile(o.section)
	if o.action == fleet.Uninstall && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--section: %w", err)
	}
	if o.action == fleet.Uninstall {
		return data, nil
	}
	found, err := validate.File(validate.Options{Name: o.section, Data: data})
	if err != nil {
		return nil, fmt.Errorf("--section: %w", err)
	}
	if found.Valid {
		return data, nil
	}
	lines := []string{"refused, and no Job was made: the nodes would refuse the section"}
	for _, p := range found.Problems {
		parts := []string{p.File}
		if p.Field != "" {
			parts = append(parts, p.Field)
		}
		lines = append(lines, strings.Join(append(parts, p.Message), ": "))
	}
	return nil, refused(strings.Join(lines, "\n"))
}
