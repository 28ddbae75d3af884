// Command partition-installer brings a system partition to a node from a pod, as a part of a roll
// over a fleet (docs/fleet-installer.md). In the pod it has the host's systemd run each stage. On
// the host it is the stage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/installer/host"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/pod"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/systemd"
	"nodepartition/internal/trialend"
)

// version is set by the Makefile, from git.
var version = "unknown"

const usage = `Usage: partition-installer STAGE --node=NAME --roll=ID --version=V --section=FILE [OPTIONS]
       partition-installer host STAGE ROLL
       partition-installer same
       partition-installer back [--now]

In a pod, STAGE is one of preflight, install, apply, verify, keep and uninstall.
Exit status: 0 done; 1 failed, and the node is as before; 2 wrong options;
3 refused before anything was written; 4 failed, and the node is not as before.

  --node=NAME       the name of the Node
  --roll=ID         the ID of the roll
  --version=V       the version that the image has to have
  --section=FILE    the section, a node-partition.yaml
  --trial=DURATION  the time after which the node goes back (10m)
  --nri=RUNTIME     switch NRI on in containerd or crio
  --monitor-args=ARGS
                    write these options of partition-monitor run to
                    /etc/default/node-partition
  --state=FOLDER    the host's /var/lib/node-partition/installer (/host/state)

On the host, systemd runs "host", "same" and "back". An operator can run "back":
it brings the node back if the time of a roll is over, with --now at once.
`

// The places of a pod that a test replaces.
type places struct {
	root        hostfs.FS // of the host, for its own commands
	image       hostfs.FS
	termination string
	// confined is the file with the label of a process, by which a policy of SELinux is seen.
	confined string
	// bus is the address of the host's system bus, and patience how long it may take to answer.
	bus      string
	patience time.Duration
	// uid is the user of this process.
	uid int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	at := places{
		root: "/", image: "/", termination: "/dev/termination-log", confined: "/proc/self/attr/current",
		bus: "unix:path=/run/dbus/system_bus_socket", patience: 30 * time.Second,
		uid: os.Geteuid(),
	}
	status := run(ctx, os.Args[1:], at, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(status))
}

func run(ctx context.Context, args []string, at places, stdout, stderr io.Writer) outcome.Status {
	if len(args) == 1 {
		switch args[0] {
		case "--help", "-h", "help":
			fmt.Fprint(stdout, usage)
			return outcome.Done
		case "--version", "version":
			fmt.Fprintln(stdout, "partition-installer", version)
			return outcome.Done
		}
	}
	if len(args) > 0 {
		switch args[0] {
		case "host", "same", "back":
			return onHost(ctx, args, at, stderr)
		}
	}
	return inPod(ctx, args, at, stderr)
}

func usageError(stderr io.Writer, err error) outcome.Status {
	fmt.Fprintf(stderr, "partition-installer: error: %v; see partition-installer --help\n", err)
	return outcome.Usage
}

// podStages lists the stages of a pod.
func podStages() []sandbox.Stage {
	return []sandbox.Stage{
		sandbox.Preflight, sandbox.Install, sandbox.Apply, sandbox.Verify, sandbox.Keep, sandbox.Uninstall,
	}
}

func inPod(ctx context.Context, args []string, at places, stderr io.Writer) outcome.Status {
	if len(args) == 0 || !slices.Contains(podStages(), sandbox.Stage(args[0])) {
		return usageError(stderr, fmt.Errorf("want one of the stages %v", podStages()))
	}
	stage := sandbox.Stage(args[0])
	w, state, err := parse(args[1:])
	if err == nil {
		err = w.Check(stage)
	}
	if err == nil && !isVersion(w.Version, version) {
		err = fmt.Errorf("--version: the image has version %s: name that, or another image", version)
	}
	if err != nil {
		o := outcome.Outcome{Status: outcome.Usage, Reason: outcome.Failed, Sentences: []string{err.Error()}}
		terminate(at, o, stderr)
		return usageError(stderr, err)
	}
	client := systemd.New(systemd.Options{
		// The pod has no other way to systemd.
		BusAddress: at.bus, PrivateAddress: at.bus, Cgroups: cgroupfs.FS(at.image), Timeout: at.patience,
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(running) // it ends with running
	}()
	p := &pod.Pod{
		Store: store.Store{Folder: state}, Image: store.Disk{Root: at.image},
		Systemd: client, Now: trialend.Now, Confined: confined(at.confined), UID: at.uid,
	}
	o := p.Stage(ctx, stage, w)
	stop()
	<-ended
	terminate(at, o, stderr)
	return o.Status
}

// isVersion reports whether a version that is asked for is the one of a program. Tags begin with a
// v, and versions of packages and charts do not. A program that was built without make has none.
func isVersion(asked, built string) bool {
	return built == "unknown" || strings.TrimPrefix(asked, "v") == strings.TrimPrefix(built, "v")
}

// parse parses the options of a stage in a pod.
func parse(args []string) (w pod.Wish, state string, err error) {
	flags := flag.NewFlagSet("partition-installer", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&w.Node, "node", "", "")
	flags.StringVar(&w.Roll, "roll", "", "")
	flags.StringVar(&w.Version, "version", "", "")
	flags.StringVar(&w.SectionFile, "section", "", "")
	flags.StringVar(&w.NRI, "nri", "", "")
	flags.DurationVar(&w.Trial, "trial", 10*time.Minute, "")
	flags.Func("monitor-args", "", func(text string) error {
		if text != "" {
			w.MonitorArgs = &text
		}
		return nil
	})
	flags.StringVar(&state, "state", "/host/state", "")
	// The errors of the package flag have what was given, which may be of a Secret.
	if err := flags.Parse(args); err != nil {
		bad := errors.New("an unknown option, or one without a value")
		flags.VisitAll(func(f *flag.Flag) {
			if strings.Contains(err.Error(), "for flag -"+f.Name+":") {
				bad = fmt.Errorf("--%s: want another value", f.Name)
			}
		})
		return w, "", bad
	}
	if flags.NArg() > 0 {
		return w, "", errors.New("want no argument beside the options")
	}
	if w.NRI == "none" {
		w.NRI = ""
	}
	if w.NRI != "" && !slices.Contains(host.NRIRuntimes(), w.NRI) {
		return w, "", fmt.Errorf("--nri: want none or one of %v", host.NRIRuntimes())
	}
	return w, state, nil
}

// terminate writes the outcome where Kubernetes, and a reader of the log, look for it.
func terminate(at places, o outcome.Outcome, stderr io.Writer) {
	fmt.Fprintln(stderr, o.Text())
	if err := os.WriteFile(at.termination, []byte(o.Termination()), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(stderr, "partition-installer: warning: no termination message: %v\n", err)
	}
}

// confined reports whether a policy of SELinux is loaded: the kernel has labels of processes then,
// such as system_u:system_r:container_t:s0. AppArmor has other texts at the same place.
func confined(path string) bool {
	label, err := os.ReadFile(path)
	return err == nil && strings.Count(string(label), ":") >= 3
}

// onHost runs a command that systemd starts on the host.
func onHost(ctx context.Context, args []string, at places, stderr io.Writer) outcome.Status {
	h := newHost(at, stderr)
	switch {
	case len(args) == 3 && args[0] == "host":
		o := h.Do(ctx, sandbox.Stage(args[1]), args[2])
		fmt.Fprintln(stderr, o.Text())
		if err := h.WriteJSON(store.Result(args[1], args[2]), o); err != nil {
			fmt.Fprintf(stderr, "partition-installer: error: %v\n", err)
			return outcome.Remains
		}
		return o.Status
	case len(args) == 1 && args[0] == "same":
		same, err := h.Same()
		if err != nil {
			fmt.Fprintf(stderr, "partition-installer: error: %v\n", err)
		}
		if !same {
			return outcome.Refused
		}
		return outcome.Done
	case len(args) <= 2 && args[0] == "back" && (len(args) == 1 || args[1] == "--now"):
		if err := h.Back(ctx, len(args) == 2); err != nil {
			fmt.Fprintf(stderr, "partition-installer: error: %v\n", err)
			return outcome.Remains
		}
		return outcome.Done
	}
	return usageError(stderr, fmt.Errorf("%v: want host STAGE ROLL, same, or back [--now]", args))
}

func newHost(at places, stderr io.Writer) *host.Host {
	return &host.Host{
		Store:    store.Store{Disk: store.Disk{Root: at.root}, Folder: store.Folder},
		Programs: host.Exec{}, Now: trialend.Now, Label: host.ReadLabel,
		Cluster: func() (host.Cluster, error) { return cluster(at.root) },
		Say:     func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
}

// cluster returns a client with the kubelet's kubeconfig, nil if the node has none.
func cluster(root hostfs.FS) (host.Cluster, error) {
	found, err := kubeapi.Find(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return kubeapi.New(found)
}
