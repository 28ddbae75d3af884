package check

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/slices/config"
)

func (c *checks) configuration(context.Context) []state.Finding {
	var found []state.Finding
	desired, err := node.ReadDesired(c.options.Node)
	c.desired = desired
	found = append(found, c.writable()...)
	for _, warning := range desired.Warnings {
		found = append(found, state.Finding{Grade: state.Warning, Found: warning})
	}
	if desired.KubeletsFile != "" {
		found = append(found, state.Finding{Grade: state.Warning, Found: desired.KubeletsFile})
	}
	if desired.NotApplied != nil {
		grade := state.Error
		if errors.Is(desired.NotApplied, node.ErrNotApplied) {
			grade = state.Warning // the edit may be meant for the next reload
		}
		found = append(found, state.Finding{
			Grade: grade, Found: desired.NotApplied.Error(), Change: "systemctl daemon-reload",
		})
	}
	looked := desired.Kubelet.Looked
	switch {
	case desired.ManagedByKubelet != "":
		c.yields = true
		found = append(found, state.Finding{Grade: state.Warning, Found: desired.ManagedByKubelet, Looked: looked})
	case errors.Is(err, node.ErrFacts):
		found = append(found, state.Finding{Grade: state.Warning, Found: err.Error(), Looked: looked})
	case err != nil:
		for i, problem := range config.Problems(err) {
			f := state.Finding{Grade: state.Error, Found: problem.Error()}
			if i == 0 {
				f.Looked = looked
			}
			found = append(found, f)
		}
	case len(desired.Partitions) == 0:
		found = append(found, state.Finding{
			Grade:  state.Warning,
			Looked: looked,
			Found: fmt.Sprintf(
				"no section %s and no %s, or switched off by %s=0 on the kernel command line: there is no partition to make",
				kubeletconfig.SectionField, kubeletconfig.WorkloadsField, config.OffSwitch,
			),
		})
	default:
		for i, p := range desired.Partitions {
			f := state.Finding{Grade: state.OK, Found: fmt.Sprintf(
				"memoryLimit %s, cpuset %q, namespaces %s",
				limitText(&p), p.CPUs, strings.Join(p.Namespaces, ", "),
			)}
			if i == 0 {
				f.Looked = looked
			}
			found = append(found, f)
		}
		// Of a kubelet's configuration that cannot be computed plan says why.
		shares := node.BudgetPartitions(desired.Partitions, desired.Workloads)
		if b, err := node.Budget(c.options.Node, shares); err == nil {
			for _, short := range b.Short {
				found = append(found, state.Finding{Grade: state.Warning, Found: short})
			}
		}
	}
	return found
}

// limitText formats a memoryLimit.
func limitText(p *config.Partition) string {
	switch {
	case p.Limit == 0:
		return "none (the partition only sets CPU weights and reports usage)"
	case p.Share != nil:
		return fmt.Sprintf("%s (%v)", text.RoundBytes(int64(p.Limit)), p.Share)
	}
	return text.RoundBytes(int64(p.Limit))
}

// trial warns of a running trial, and reports one that does not end as it should.
func (c *checks) trial(ctx context.Context) []state.Finding {
	const change = "partition-monitor keep makes it permanent, partition-monitor try --end goes back"
	running, err := node.ReadTrial(c.options.Node)
	switch {
	case err != nil:
		return changing(state.Warning, change, "%v", err)
	case running == nil:
		return saying(state.OK, "no trial is running")
	}
	if c.options.Node.Answers() != nil { // its timer and its clock are elsewhere
		return changing(state.Warning, change, "%s is tried until %s", running.From, running.Until.Format(node.TimeOfDay))
	}
	if waits, err := node.TrialTimerRuns(ctx, c.options.Node); err == nil && !waits {
		return changing(
			state.Error, change,
			"the trial of %s has no timer; partition-monitor.service, or else the next daemon-reload, ends it after %s",
			running.From, running.Until.Format(node.TimeOfDay),
		)
	}
	until := running.Until.Format(node.TimeOfDay)
	if running.Late() > time.Minute {
		return changing(
			state.Error, "journalctl -u "+node.TrialUnit+" shows what fails",
			"the trial of %s was to end at %s, and still runs", running.From, until,
		)
	}
	return changing(state.Warning, change, "%s is tried until %s", running.From, until)
}

// kubelet compares the command line of the running kubelet with the configuration that the
// generator reads.
func (c *checks) kubelet(context.Context) []state.Finding {
	process, err := kubelet.Running(c.options.Node.Root)
	if errors.Is(err, kubelet.ErrNotRunning) {
		return saying(state.OK, "%v: there is no command line to compare with", err)
	}
	if err != nil {
		return saying(state.Warning, "%v", err)
	}
	found := otherTree(&process.Flags)
	settings := "set %s=%s in " + kubeletconfig.SettingsPath + ", and systemctl daemon-reload"
	if file := process.Config; file != "" && !slices.Contains(c.desired.Kubelet.Files, filepath.Clean(file)) {
		found = append(found, changing(state.Warning, fmt.Sprintf(settings, "KUBELET_CONFIG", file),
			"the running kubelet was started with --config=%s, which is not read here: %s", file, orNone(c.desired.Kubelet.Files))...)
	}
	looked := c.desired.Kubelet.Looked
	if dir := process.ConfigDir; dir != "" && !slices.ContainsFunc(looked, func(l kubeletconfig.Look) bool {
		return l.Path == filepath.Clean(dir) || strings.HasPrefix(l.Path, filepath.Clean(dir)+"/")
	}) {
		found = append(found, changing(state.Warning, fmt.Sprintf(settings, "KUBELET_CONFIG_DIR", dir),
			"the running kubelet was started with --config-dir=%s, whose drop-ins are not read here", dir)...)
	}
	if len(c.desired.Partitions) > 0 {
		settings, err := c.settings()
		if err != nil {
			return append(found, saying(state.Warning, "%v", err)...)
		}
		for i := range c.desired.Partitions {
			found = append(found, assignable(&c.desired.Partitions[i], &settings)...)
		}
	}
	if found == nil {
		found = saying(state.OK, "process %d uses the same configuration", process.PID)
	}
	return found
}

// assignable finds CPUs of the partition that the static policy may assign to a container of a
// user: it assigns CPUs that are not reserved. Only flags of the kubelet lead to this, because a
// section beside such a configuration file is refused.
func assignable(p *config.Partition, kubelet *node.KubeletSettings) []state.Finding {
	const field = "reservedSystemCPUs"
	reserved, err := cpuset.Parse(kubelet.Kubelet.ReservedSystemCPUs)
	outside := p.CPUs.Difference(reserved)
	if err != nil || kubelet.Kubelet.CPUManagerPolicy != static || outside.IsEmpty() {
		return nil
	}
	consequence := "members run on them, too"
	if p.Exclusive {
		consequence = "it is kept off them, and runs where other pods run"
	}
	return changing(
		state.Warning, fmt.Sprintf(`set %s: "%s"; then %s`, field, reserved.Union(p.CPUs), restart(kubelet)),
		"%s: %s is %q: the static CPU manager may assign the CPUs %s of %s to a Guaranteed container of a user alone: %s",
		kubelet.Config.FileWith(field), field, reserved, outside, config.SectionPath(p.Name), consequence,
	)
}

// otherTree reports a kubelet whose pods never come into the partition. The generator refuses the
// same settings in the kubelet's configuration. It cannot see a command line.
func otherTree(flags *kubelet.Flags) []state.Finding {
	flag := flags.OtherTree()
	if flag == "" {
		return nil
	}
	return changing(
		state.Error, "remove the flag from the kubelet's command line",
		"the running kubelet was started with %s: its pods are not in kubepods.slice at the top of the hierarchy, and none comes into the partition",
		flag,
	)
}

func orNone(files []string) string {
	if len(files) == 0 {
		return "no file is"
	}
	return strings.Join(files, ", ") + " is"
}
