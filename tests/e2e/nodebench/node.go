package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	onNode  = "/root/onnode"
	monitor = "/usr/bin/partition-monitor"
	unit    = "partition-monitor.service"
)

// bench holds the programs that are built for all nodes.
type bench struct {
	options
	dir       string
	installed []lab.File // on each node
	progress  func(string)
}

func build(o options, progress func(string)) (*bench, error) {
	dir, err := os.MkdirTemp("", "nodebench")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, dir: dir, progress: progress}
	progress("building")
	for name, pkg := range map[string]string{
		"partition-generator": "node-partition.io/node-partition/cmd/partition-generator",
		"partition-monitor":   "node-partition.io/node-partition/cmd/partition-monitor",
		"onnode":              "node-partition.io/node-partition/tests/e2e/nodebench/onnode",
	} {
		err = errors.Join(err, testkit.Build(pkg, b.path(name)))
	}
	installed, listErr := lab.Installed("../..", "deploy/installed", dir, "partition-generator", "partition-monitor", unit)
	if b.installed = installed; b.monitor != "" {
		b.installed = append(b.installed, lab.File{Path: monitor, Source: b.monitor, Mode: 0o755})
	}
	err = errors.Join(err, listErr)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// fineTimers gives a node the timers of real ones.
const fineTimers = "highres=on"

// section has no CPU set: containers of the partition have the same CPUs as the others.
const section = `maxPods: 250
systemPartition:
  memoryLimit: 3Gi
  namespaces: [kube-system]
`

// part is one measurement on a node.
type part struct {
	name string
	// counting means a node without a kubelet whose clock counts instructions.
	counting bool
	measure  func(context.Context, *lab.Node, lab.Flavour) ([]figure.Figure, error)
}

// node measures each part on a node of its own.
func (b *bench) node(ctx context.Context, name string) (all []measured, err error) {
	flavour, err := lab.FlavourByName(name)
	if err != nil {
		return nil, err
	}
	for _, part := range []part{{"cost", true, b.cost}, {"idle", false, b.idle}} {
		if !b.wants(part.name) {
			continue
		}
		m, err := b.on(ctx, flavour, part)
		all = append(all, m...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// files returns what is installed on each node: the programs, and what measures.
func (b *bench) files(config lab.File) []lab.File {
	return slices.Concat(allThreads(), b.installed, []lab.File{
		config,
		{Path: onNode, Source: b.path("onnode"), Mode: 0o755},
	})
}

// allThreads lets kubelet and runtime use all CPUs at once, as they do on nodes that are not the
// lab's: figures of the monitor are ratios of theirs.
func allThreads() []lab.File {
	dropin := func(service string) lab.File {
		return lab.File{Path: "/etc/systemd/system/" + service + ".d/lab-gomaxprocs.conf", Link: "/dev/null"}
	}
	return []lab.File{dropin("kubelet.service"), dropin("containerd.service"), dropin("crio.service")}
}

// on boots a node and measures on it. A kubelet that runs removes containers and slices of pods
// that it does not know.
func (b *bench) on(ctx context.Context, flavour lab.Flavour, part part) (all []measured, err error) {
	config, err := lab.KubeletConfig(section)
	if err != nil {
		return nil, err
	}
	cpus := 4
	if part.counting {
		cpus = 1
	}
	n, err := lab.Start(ctx, lab.Options{
		Flavour: flavour.Name, NoPods: true, MemoryMiB: 6144, KernelArgs: []string{fineTimers}, Progress: b.progress,
		CPUs: cpus, CountInstructions: part.counting,
		Files: b.files(config),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			dir := filepath.Join(os.TempDir(), "nodebench-"+n.Name)
			err = errors.Join(fmt.Errorf("%s: %w; what the node was like is in %s", flavour.Name, err, dir), n.Collect(ctx, dir))
		}
		err = errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}()
	if err := n.WaitReady(ctx); err != nil {
		return nil, err
	}
	stop := ""
	if part.counting {
		stop = " && systemctl stop kubelet.service " + unit
	}
	if _, err := n.Run(ctx, "systemctl is-active "+unit+stop); err != nil {
		return nil, err
	}
	b.progress(flavour.Name + ": " + part.name)
	figures, err := part.measure(ctx, n, flavour)
	for _, f := range figures {
		all = append(all, measured{flavour.Name, f})
		b.progress(fmt.Sprintf("  %s: %s %s %s", strings.TrimSpace(f.Name), number(f.Value), f.Unit, f.Note))
	}
	return all, err
}

// measure runs a part on the node.
func measure(ctx context.Context, n *lab.Node, arguments string) ([]figure.Figure, error) {
	out, err := n.Run(ctx, onNode+" "+arguments)
	var failed *lab.CommandError
	if errors.As(err, &failed) {
		out = failed.Stdout // figures from before the failure
	}
	var figures []figure.Figure
	if out == "" {
		return nil, err
	}
	return figures, errors.Join(err, json.Unmarshal([]byte(out), &figures))
}

func (b *bench) cost(ctx context.Context, n *lab.Node, f lab.Flavour) ([]figure.Figure, error) {
	return measure(ctx, n, fmt.Sprintf(
		"cost -runtime %s -rounds %d -instruction %s", f.Socket, b.rounds, lab.InstructionTime,
	))
}

// calm is the idle time of a node after it has become ready.
const calm = 30 * time.Second

// atOnce is the number of pods that are started at a time. A hundred that start together take an
// emulated node longer than the timeouts of kubelet and runtime.
const atOnce = 10

// idle runs pods on the node, and measures it meanwhile.
func (b *bench) idle(ctx context.Context, n *lab.Node, _ lab.Flavour) ([]figure.Figure, error) {
	names := make([]string, b.pods)
	for i := range names {
		names[i] = fmt.Sprintf("idle-%d", i)
	}
	for batch := range slices.Chunk(names, atOnce) {
		if err := startPods(ctx, n, batch); err != nil {
			return nil, err
		}
		b.progress("  running, to " + batch[len(batch)-1])
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(calm):
	}
	return measure(ctx, n, fmt.Sprintf("idle -pods %d -for %s", b.pods, b.idleFor))
}

// startPods returns when the pods run.
func startPods(ctx context.Context, n *lab.Node, names []string) error {
	var files []lab.File
	for _, name := range names {
		manifest, err := json.Marshal(systemPod(name))
		if err != nil {
			return err
		}
		files = append(files, lab.File{Path: lab.ManifestDir + "/" + name + ".yaml", Data: manifest})
	}
	if err := n.CopyTo(ctx, files...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return n.WaitReady(ctx)
}

func systemPod(name string) *v1.Pod {
	grace := int64(1)
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: v1.PodSpec{
			HostNetwork: true, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{
				{
					Name:            "main",
					Image:           lab.BusyboxImage,
					ImagePullPolicy: v1.PullNever,
					Command:         []string{"sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"},
					Resources: v1.ResourceRequirements{
						Requests: v1.ResourceList{
							v1.ResourceCPU:    resource.MustParse("10m"),
							v1.ResourceMemory: resource.MustParse("8Mi"),
						},
					},
				},
			},
		},
	}
}
