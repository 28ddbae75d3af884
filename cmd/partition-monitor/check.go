package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/slices"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "check the configuration and the node: what is wrong and what to change; exit status 1 where something is wrong",
		Flags: socketFlags(),
		Action: func(c *cli.Context) error {
			likeService(c, cgroupfs.Mount, "/proc")
			if _, err := moveMode(c); err != nil {
				return err
			}
			found := checkNode(c.Context, checks{
				runtime: &runtimeClient{endpoint: c.String(flagRuntime), kubelets: kubeletsEndpoint, connected: func(bool) {}},
				nri:     c.String(flagNRI), podsAPI: c.String(flagPods), listen: c.String(flagListen), cgroups: cgroupfs.Mount,
			})
			wrong := false
			for _, f := range found {
				fmt.Fprintf(c.App.Writer, "%-8s%s\n", f.grade, oneLine(f.text))
				wrong = wrong || f.grade == gradeError
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
)

type finding struct {
	grade grade
	text  string
}

type checks struct {
	runtime              *runtimeClient
	nri, podsAPI, listen string
	cgroups              cgroupfs.FS
}

// checkNode goes from the configuration to the node, in the order in which an operator meets things.
func checkNode(ctx context.Context, c checks) []finding {
	var found []finding
	add := func(g grade, format string, args ...any) {
		found = append(found, finding{g, fmt.Sprintf(format, args...)})
	}
	plan, err := readPlan()
	for _, warning := range plan.Warnings {
		add(gradeWarning, "%s", warning)
	}
	switch {
	case err != nil:
		for _, problem := range flatten(err) {
			add(gradeError, "%s", problem)
		}
	case plan.Yields != "":
		add(gradeWarning, "%s", plan.Yields)
		return found
	case plan.Partition == nil:
		add(gradeWarning, "configuration: no systemPartition section, or switched off by %s=0 on the kernel command line: there is no partition to make", slices.OffSwitch)
	default:
		add(gradeOK, "configuration: memoryLimit %d, cpuset %q, namespaces %s", plan.Partition.MemoryLimit, plan.Partition.CPUs, strings.Join(plan.Partition.Namespaces, ", "))
		c.slice(add, plan)
	}
	c.sockets(ctx, add)
	return found
}

// slice compares the running partition with the configuration.
func (c checks) slice(add func(grade, string, ...any), plan *slices.Plan) {
	want := plan.Partition
	limits, err := c.cgroups.Limits(cgroupfs.SlicePath(slices.SystemSlice))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		add(gradeError, "%s does not run: is partition-generator installed? systemctl daemon-reload, and then systemctl start slices.target", slices.SystemSlice)
	case err != nil:
		add(gradeError, "%v", err)
	case plan.Deferred:
		add(gradeWarning, "%s: memory.max is %s; the configured %d comes when partition-monitor has evicted down to it", slices.SystemSlice, maxText(limits.MemoryMax), want.MemoryLimit)
	case limits.MemoryMax != uint64(want.MemoryLimit)&^(uint64(os.Getpagesize())-1):
		add(gradeError, "%s: memory.max is %s; the configuration asks for %d: systemctl daemon-reload", slices.SystemSlice, maxText(limits.MemoryMax), want.MemoryLimit)
	default:
		add(gradeOK, "%s runs with its limits", slices.SystemSlice)
	}
}

func maxText(value uint64) string {
	if value == cgroupfs.Unlimited {
		return "max"
	}
	return fmt.Sprint(value)
}

// sockets looks at what the service talks to.
func (c checks) sockets(ctx context.Context, add func(grade, string, ...any)) {
	endpoint, name, version, err := c.runtime.version(ctx)
	if err != nil {
		add(gradeError, "%v", err)
	} else {
		add(gradeOK, "container runtime: %s %s at %s", name, version, endpoint)
	}
	if err := served(ctx, c.nri); err != nil {
		add(gradeWarning, "NRI: %v: containers are moved after they have started, and memory that they had charged stays outside; "+
			"use a runtime that serves NRI (containerd 2.0, CRI-O 1.26), or switch it on in its configuration", err)
	} else {
		add(gradeOK, "NRI: served at %s: containers are placed when they are created", c.nri)
	}
	if err := served(ctx, c.podsAPI); err != nil {
		add(gradeWarning, "kubelet's Pods API: %v: requests are taken from the runtime, and no pod is restarted to be moved; "+
			"use kubelet 1.37, or the feature gate PodsAPI of 1.36", err)
	} else {
		add(gradeOK, "kubelet's Pods API: served at %s", c.podsAPI)
	}
	switch service := askService(ctx, c.listen); service {
	case "ready":
		add(gradeOK, "service: ready, metrics at http://%s/metrics", c.listen)
	default:
		add(gradeWarning, "service: %s", service)
	}
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

// flatten takes apart what errors.Join put together.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, flatten(one)...)
	}
	return list
}
