package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"node-partition.io/node-partition/tests/lab"
)

const (
	demoName = "demo"
	// demoFlavour has Debian's containerd and runc, so that a first demo builds the kubelet alone.
	// Its runc copies itself into memory for each container. For the few pods of a demo that costs
	// less than the build of another runc. forky has Debian's programs, too, but its kernel needs more
	// time for a boot under emulation, and its Debian is another one every day.
	demoFlavour = "containerd-1.7"
	cgroup      = "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice"
	section     = `systemPartition:
  memoryLimit: 512Mi
  cpuset: "0-1"
  namespaces: [kube-system]
`
)

// demo gives a running node a system partition and shows it. "make demo" calls it, and has it build
// the programs.
func demo(c *cli.Context) error {
	ctx, flavour, build := c.Context, c.String("flavour"), c.String("build")
	f, err := lab.FlavourByName(flavour)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if f.Arch != "" {
		// Nor could the demo restore such a node.
		return fmt.Errorf("demo: flavour %s: the programs are built for this machine: use another flavour", f.Name)
	}
	files, err := lab.Installed(".", "deploy/installed", "bin")
	if err != nil {
		return fmt.Errorf("demo: %w: run it as \"make demo\"", err)
	}
	if build == "" {
		if err := built(files); err != nil {
			return err
		}
	}
	config, err := lab.KubeletConfig(section)
	if err != nil {
		return err
	}
	made, err := lab.Made(flavour)
	if err != nil {
		return err
	}
	if err := stopEarlier(ctx); err != nil {
		return err
	}
	tell := progress()
	// The first demo of a flavour would make the snapshot only to restore it: it boots the node.
	node, err := startNode(ctx, lab.Options{
		Name: demoName, Flavour: flavour, Restore: made, Detached: true, Progress: tell,
	}, build)
	if err != nil {
		return err
	}
	done := lab.BeginStep(tell, "switching the partition on")
	err = switchOn(ctx, node, files, config)
	if err == nil {
		done()
		err = show(ctx, node)
	}
	if err != nil {
		// No message has named the node yet, so it must not stay behind.
		return errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Printf(
		"\nThe node runs on.\n  log in:  tests/lab/lab ssh %s\n  stop it: tests/lab/lab down %s\n",
		demoName, demoName,
	)
	return nil
}

// startNode starts a node and waits until its pods run. Beside that it builds the programs, unless
// the command that does is empty.
func startNode(ctx context.Context, o lab.Options, build string) (*lab.Node, error) {
	var node *lab.Node
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if node, err = lab.Start(groupCtx, o); err != nil {
			return err
		}
		done := lab.BeginStep(o.Progress, "starting the pods")
		if err := node.WaitReady(groupCtx); err != nil {
			return err
		}
		done()
		return nil
	})
	if build != "" {
		group.Go(func() error { return buildPrograms(groupCtx, o.Progress, build) })
	}
	err := group.Wait()
	if err != nil && node != nil {
		err = errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return node, nil
}

// buildPrograms runs a command of the shell. Its output is shown if it fails. The command has the
// lowest priority: a first demo waits for the kubelet longer than for the programs, and a node that
// boots does not keep two cores busy.
func buildPrograms(ctx context.Context, tell func(string), command string) error {
	done := lab.BeginStep(tell, "building the programs")
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", "sh", "-c", command)
	// The compilers that it starts end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprint(os.Stderr, string(out))
		return fmt.Errorf("demo: build the programs: %s: %w", command, err)
	}
	done()
	return nil
}

// built returns an error if a file is not there.
func built(files []lab.File) error {
	for _, f := range files {
		if _, err := os.Stat(f.Source); err != nil {
			return fmt.Errorf("demo: %w: run it as \"make demo\", which builds it", err)
		}
	}
	return nil
}

// switchOn installs the files of "make install", follows the README's steps for a running node, and
// returns when the monitor has moved the member into the partition, and all pods run.
func switchOn(ctx context.Context, node *lab.Node, files []lab.File, config lab.File) error {
	if err := built(files); err != nil {
		return err
	}
	// Without an API server all pods are static pods, which are neither restarted nor evicted by
	// default.
	all := slices.Concat(files, []lab.File{config, {
		Path: "/etc/default/node-partition",
		Data: []byte("PARTITION_MONITOR_ARGS=\"--move=restart --eviction-protect=node-critical\"\n"),
	}})
	if err := node.CopyTo(ctx, all...); err != nil {
		return err
	}
	if _, err := node.Run(ctx, "systemctl daemon-reload && systemctl start slices.target"); err != nil {
		return err
	}
	err := node.Eventually(ctx, "a member in the partition", func(ctx context.Context) (bool, string, error) {
		out, err := node.Run(ctx, "find "+cgroup+" -name '*.scope'")
		return out != "", out, err
	})
	if err != nil {
		return err
	}
	return node.WaitReady(ctx)
}

// stopEarlier stops the node of an earlier demo.
func stopEarlier(ctx context.Context) error {
	nodes, err := lab.List(ctx)
	if err != nil {
		return err
	}
	for _, status := range nodes {
		if status.Name != demoName {
			continue
		}
		node, err := lab.Open(ctx, demoName)
		if err != nil {
			return err
		}
		fmt.Println("stopping the node of an earlier demo")
		return node.Stop(ctx)
	}
	return nil
}

func show(ctx context.Context, node *lab.Node) error {
	for _, step := range []struct{ title, command string }{
		{"The configuration: a section in the kubelet's own", "sed -n '/^systemPartition:/,$p' " + lab.KubeletConfigPath},
		{"What systemd makes of it", "systemctl status --no-pager --lines=0 kubepods-system.slice"},
		{"The limits as the kernel has them", "cd " + cgroup + " && grep -H . memory.max cpuset.cpus"},
		{"Members in their slices, the other pods where they were", "systemd-cgls --no-pager --unit kubepods.slice | grep -v pause"},
		{"The same, by name", "partition-monitor status"},
		{"Is everything as it has to be?", "partition-monitor check"},
		{"A pod's slice says whose it is", "systemctl list-units --no-pager --no-legend --type=slice 'kubepods-system-*-pod*'"},
		{"The metrics", metrics},
		{"The partition beside the kubelet's own slices", "systemctl list-units --no-pager --no-legend --type=slice 'kubepods.slice' 'kubepods-system*' kubepods-burstable.slice kubepods-besteffort.slice"},
		{"A changed limit, applied by daemon-reload", replace("512Mi", "640Mi") + " && systemctl daemon-reload && " + untilLimit(640<<20)},
		{"A typo: the limit stays, and the journal says why", replace("640Mi", "640 MB") + " && systemctl daemon-reload && cat " + cgroup + "/memory.max" +
			" && journalctl -b -o cat -t partition-generator"},
		{"Repaired", replace("640 MB", "512Mi") + " && systemctl daemon-reload && " + untilLimit(512<<20)},
	} {
		out, err := node.Run(ctx, step.command)
		if err != nil {
			return err
		}
		fmt.Printf("\n== %s\n# %s\n%s\n", step.title, step.command, strings.TrimRight(out, "\n"))
	}
	if err := showPods(ctx, node); err != nil {
		return err
	}
	return showEviction(ctx, node)
}

// leaker is a pod of the partition that grows by 25 MiB a second without limit.
const leaker = `apiVersion: v1
kind: Pod
metadata: {name: leaker, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
    - name: main
      image: lab.local/podtool:1
      imagePullPolicy: Never
      command: [/podtool, grow, 8Mi, 25Mi, 4Gi]
      resources: {requests: {cpu: 10m, memory: 16Mi}}
`

// showEviction makes a pod leak, and shows how the partition fills and how the monitor evicts.
func showEviction(ctx context.Context, node *lab.Node) error {
	fmt.Print("\n== A pod of the partition leaks: 25 MiB a second, and 16 MiB requested\n")
	if _, err := node.ApplyPod(ctx, []byte(leaker)); err != nil {
		return err
	}
	const (
		evictions = `nodepartition_evictions_total{dry_run="false",method="restart",partition="system",threshold="hard"}`
		available = `nodepartition_memory_available_bytes{partition="system"}`
	)
	last := ""
	err := node.Eventually(ctx, "an eviction", func(ctx context.Context) (bool, string, error) {
		text, err := node.Get(ctx, "http://127.0.0.1:9948/metrics")
		if err != nil {
			return false, "", err
		}
		values := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			values[name] = value
		}
		if bytes, err := strconv.ParseFloat(values[available], 64); err == nil {
			if line := fmt.Sprintf("%.0f MiB available", bytes/(1<<20)); line != last {
				last = line
				fmt.Println(line)
			}
		}
		return values[evictions] != "0" && values[evictions] != "", last, nil
	})
	if err != nil {
		return err
	}
	for _, step := range []struct{ title, command string }{
		{"The eviction, in the journal", "journalctl -b -o cat --no-pager -u partition-monitor.service PARTITION_POD=leaker-" + node.Hostname},
		{"The other pods continue to run, and the kernel has killed none", "grep -H oom_kill " + cgroup + "/memory.events; partition-monitor status"},
	} {
		out, err := node.Run(ctx, step.command)
		if err != nil {
			return err
		}
		fmt.Printf("\n== %s\n# %s\n%s\n", step.title, step.command, strings.TrimRight(out, "\n"))
	}
	return node.DeletePod(ctx, "leaker")
}

// metrics is a command that shows some of the metrics for Prometheus.
const metrics = "busybox wget -qO- http://127.0.0.1:9948/metrics | grep -E '^(kubelet_partition_|nodepartition_(placements_total.*success|memory_working_set_bytes|cpu_weight|source_connected|placement_duration_seconds_(sum|count)))'"

// replace returns a command that changes the limit in the configuration.
func replace(from, to string) string {
	return fmt.Sprintf("sed -i 's/memoryLimit: %s/memoryLimit: %s/' %s", from, to, lab.KubeletConfigPath)
}

// untilLimit returns a command that waits until the kernel's limit has that value, and shows it.
func untilLimit(bytes int) string {
	return fmt.Sprintf("timeout 20 sh -c 'until grep -x %d %s/memory.max; do sleep 0.1; done'", bytes, cgroup)
}

func showPods(ctx context.Context, node *lab.Node) error {
	pods, err := node.Pods(ctx)
	if err != nil {
		return err
	}
	fmt.Println("\n== The pods of the node")
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tNAME\tPHASE\tQOS")
	for i := range pods {
		pod := &pods[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, pod.Status.Phase, pod.Status.QOSClass)
	}
	return table.Flush()
}
