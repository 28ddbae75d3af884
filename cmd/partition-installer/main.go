// Command partition-installer gives a node its system partition, and takes it off. A pod of the
// rollout, an operator and other tools run the same two commands (docs/fleet-node.md). They
// have the host's systemd run this program again, which does the work.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer"
	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/installer/sandbox"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/internal/trialend"
)

// payload has the files of a node. "make build" adds them.
//
//go:embed payload
var payload embed.FS

const usage = `Usage: partition-installer apply --section=FILE [OPTIONS]
       partition-installer remove [--node=NAME] [--version=V]
       partition-installer back [--now]
       partition-installer monitor COMMAND...

apply gives the node this version of the programs, and a section as a trial. It keeps both if the
node is well with them, and goes back if not, if it is killed, or if the node boots meanwhile.
remove takes all of it off. back has the node go back from an apply that was killed. monitor runs a
command of the node's partition-monitor in a pod that has the root of the node at /host.

  --section=FILE        the section, a node-partition.yaml
  --section-sha256=HEX  refuse a file with another SHA-256
  --node=NAME           the name of the Node; without it the host name
  --version=V           refuse if this program has another version
  --trial=DURATION      the time after which the node goes back (10m)
  --monitor-args=ARGS   options of partition-monitor run, with a space between two of them
  --survey              say whether the node could have it, and change nothing

Exit status: 0 done; 1 failed, and the node is as before; 2 wrong options;
3 refused before anything was written; 4 failed, and the node is not as before.
`

// The places that a test replaces.
type places struct {
	root        host.Root // of the host
	termination string
	// inPod is the installer's folder of the host in a pod of the rollout. hostRoot is the root of
	// the host in a pod of system-upgrade-controller, or of kubectl debug.
	inPod, hostRoot string
	// confined is the file with the label of a process, by which a policy of SELinux is seen.
	confined string
	// bus is the path of the host's system bus.
	bus string
	// patience bounds the time that the bus takes to answer.
	patience time.Duration
	// uid is the user of this process.
	uid     int
	payload fs.FS
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	files, err := fs.Sub(payload, "payload")
	if err != nil {
		panic(err)
	}
	at := places{
		root: "/", termination: "/dev/termination-log", inPod: "/host/state", hostRoot: "/host",
		confined: "/proc/self/attr/current", bus: "/run/dbus/system_bus_socket", patience: 30 * time.Second,
		uid: os.Geteuid(), payload: files,
	}
	status := run(ctx, os.Args[1:], at, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(status))
}

func run(ctx context.Context, args []string, at places, stdout, stderr io.Writer) record.Status {
	if len(args) == 1 {
		switch args[0] {
		case "--help", "-h", "help":
			fmt.Fprint(stdout, usage)
			return record.Done
		case "--version", "version":
			fmt.Fprintln(stdout, "partition-installer", buildversion.String())
			return record.Done
		}
	}
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "apply", "remove":
		return caller(ctx, args, at, stdout, stderr)
	case "host", "back":
		return onHost(ctx, args, at, stderr)
	case "monitor":
		fmt.Fprintf(stderr, "partition-installer: error: partition-monitor of the node: %v\n", becomeMonitor(at.hostRoot, args[1:]))
		return record.Refused
	}
	return usageError(stderr, errors.New("want apply or remove"))
}

func usageError(stderr io.Writer, err error) record.Status {
	fmt.Fprintf(stderr, "partition-installer: error: %v; see partition-installer --help\n", err)
	return record.Usage
}

// caller has the host's systemd do what the command line says. Tools compare the start of stderr
// with the outcome, so progress is on stdout.
func caller(ctx context.Context, args []string, at places, stdout, stderr io.Writer) record.Status {
	o, err := parse(args)
	if err != nil {
		refused := record.Outcome{Status: record.Usage, Reason: record.Failed, Sentences: []string{err.Error()}}
		terminate(at, refused, io.Discard)
		return usageError(stderr, err)
	}
	if o.Action != record.Remove {
		if err := o.read(); err != nil {
			return terminate(at, record.OutcomeOf(record.Refused, err), stderr)
		}
	}
	options := systemd.Options{Cgroups: cgroups.FS(at.root), Timeout: at.patience}
	s := installer.Store{Disk: installer.Disk{Root: at.root}, Folder: sandbox.Folder}
	bus := "" // the usual ones
	if exists(at.inPod) {
		s, bus = installer.Store{Folder: at.inPod}, "unix:path="+at.bus
	} else if exists(at.hostRoot + "/run/systemd/system") {
		s.Root, bus = host.Root(at.hostRoot), "unix:path="+at.hostRoot+at.bus
	}
	// A pod has no other way to systemd.
	options.BusAddress, options.PrivateAddress = bus, bus
	client := systemd.New(options)
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(running) // it ends with running
	}()
	c := &installer.Call{
		Store: s, ID: strings.ToLower(rand.Text()[:12]), Program: "/proc/self/exe",
		Systemd: client, Confined: confined(at.confined), UID: at.uid, Say: sayTo(stdout),
	}
	result := c.Do(ctx, o.Order)
	stop()
	<-ended
	return terminate(at, result, stderr)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// options holds what a command line says.
type options struct {
	record.Order
	// section is the path of the section's file, and sha256 its digest, empty for any.
	section, sha256 string
	version         string
}

var monitorArgs = regexp.MustCompile(`^` + record.MonitorArgs + `$`)

// hostPath has the folders in which a host has partition-monitor and what that calls.
const hostPath = "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin:/etc/systemd/node-partition/current"

// becomeMonitor runs the partition-monitor of the host with the root at a folder, in place of this
// program. It returns only if it cannot.
func becomeMonitor(root string, args []string) error {
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("root of the node: %s: %w", root, err)
	}
	err := errors.Join(os.Chdir("/"), os.Setenv("PATH", hostPath))
	program, missing := exec.LookPath("partition-monitor")
	if err = errors.Join(err, missing); err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, args...), []string{"PATH=" + hostPath})
}

// parse parses the command line. No error has a value: it may be of a Secret, and the error becomes
// the termination message of the pod.
func parse(args []string) (o options, err error) {
	o.Action = record.Action(args[0])
	survey := false
	flags := flag.NewFlagSet("partition-installer", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Node, "node", "", "")
	flags.StringVar(&o.version, "version", buildversion.String(), "")
	if o.Action == record.Apply {
		flags.StringVar(&o.section, "section", "", "")
		flags.StringVar(&o.sha256, "section-sha256", "", "")
		flags.StringVar(&o.MonitorArgs, "monitor-args", "", "")
		flags.DurationVar(&o.Trial, "trial", 10*time.Minute, "")
		flags.BoolVar(&survey, "survey", false, "")
	}
	if err := flags.Parse(args[1:]); err != nil {
		bad := errors.New("an unknown option, or one without a value")
		flags.VisitAll(func(f *flag.Flag) {
			if strings.Contains(err.Error(), "for flag -"+f.Name+":") {
				bad = fmt.Errorf("--%s: want another value", f.Name)
			}
		})
		return o, bad
	}
	if survey {
		o.Action = record.Survey
	}
	if o.Node == "" {
		if o.Node, err = os.Hostname(); err != nil {
			return o, fmt.Errorf("--node: want the name of the Node: %w", err)
		}
		o.Node = strings.ToLower(o.Node) // as the kubelet does (GetHostname, pkg/util/node, v1.37.0)
	}
	trialErr := record.CheckTrial(o.Trial)
	switch {
	case flags.NArg() > 0:
		return o, errors.New("want options and no argument")
	case !isVersion(o.version, buildversion.String()):
		return o, fmt.Errorf("--version: this program has version %s: name that, or use another image", buildversion.String())
	case o.Action == record.Remove:
		return o, nil
	case o.section == "":
		return o, errors.New("--section: want the file of the section")
	case trialErr != nil:
		return o, fmt.Errorf("--trial: %w", trialErr)
	case !monitorArgs.MatchString(o.MonitorArgs):
		return o, errors.New("--monitor-args: want options such as --listen=[::]:9948 with one space between two of them, and no quotes, $ and %")
	}
	return o, nil
}

// maxSection bounds the file of a section: an annotation has 256 KiB (TotalAnnotationSizeLimitB,
// apimachinery v0.37.0).
const maxSection = 256 << 10

// read reads the section.
func (o *options) read() error {
	data, err := host.Root("").ReadFile(o.section, maxSection)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // the path is a value
		}
		return fmt.Errorf("--section: %w", err)
	}
	//guard: a section with another digest than it should have is applied
	if o.sha256 != "" && o.sha256 != installer.Digest(data) {
		return record.Because(record.Section, "--section: the file has another SHA-256 than --section-sha256")
	}
	o.Section = string(data)
	return nil
}

// isVersion reports whether a version that is asked for is the one of a program. Tags begin with a
// v, and versions of packages and charts do not. A program that was built without make has none.
func isVersion(asked, built string) bool {
	return built == "unknown" || strings.TrimPrefix(asked, "v") == strings.TrimPrefix(built, "v")
}

// terminate writes the outcome where Kubernetes, and a reader of the log, look for it.
func terminate(at places, result record.Outcome, stderr io.Writer) record.Status {
	fmt.Fprintln(stderr, result.Text())
	file, err := os.OpenFile(at.termination, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = file.WriteString(result.Termination())
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(stderr, "partition-installer: warning: no termination message: %v\n", err)
	}
	return result.Status
}

// confined reports whether a policy of SELinux is loaded: the kernel has labels of processes then,
// such as system_u:system_r:container_t:s0. AppArmor has other texts at the same place.
func confined(path string) bool {
	label, err := os.ReadFile(path)
	return err == nil && strings.Count(string(label), ":") >= 3
}

// onHost runs a command that systemd starts on the host.
func onHost(ctx context.Context, args []string, at places, stderr io.Writer) record.Status {
	h := newHost(at, stderr)
	switch {
	case len(args) == 2 && args[0] == "host":
		message, order, err := h.Take(args[1])
		if err == nil {
			asked, cancel := message.WhileRequested(ctx)
			result := h.Do(asked, args[1], order)
			cancel(nil)
			fmt.Fprintln(stderr, result.Text())
			if err = message.Reply(result); err == nil {
				return result.Status
			}
		}
		fmt.Fprintf(stderr, "partition-installer: error: %v\n", err)
		return record.Remains
	case len(args) <= 2 && args[0] == "back" && (len(args) == 1 || args[1] == "--now"):
		if err := h.Back(ctx, len(args) == 2); err != nil {
			fmt.Fprintf(stderr, "partition-installer: error: %v\n", err)
			return record.Remains
		}
		return record.Done
	}
	return usageError(stderr, fmt.Errorf("%v: want back [--now]", args))
}

func newHost(at places, stderr io.Writer) *installer.Host {
	return &installer.Host{
		Store:   installer.Store{Disk: installer.Disk{Root: at.root}, Folder: sandbox.Folder},
		Payload: at.payload, Version: buildversion.String(),
		Programs: host.Programs(""), Now: trialend.Now, Label: installer.ReadLabel,
		Cluster: func() (installer.Cluster, error) { return cluster(at.root) },
		Say:     sayTo(stderr),
	}
}

// sayTo returns what notes progress, a line at a time.
func sayTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// cluster returns a client with the kubelet's kubeconfig, nil if the node has none.
func cluster(root host.Root) (installer.Cluster, error) {
	found, err := kubeapi.Find(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return kubeapi.New(found)
}
