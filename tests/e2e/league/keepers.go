package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"node-partition.io/node-partition/tests/lab"
)

// keeper is a program that is to act when memory is short.
type keeper struct {
	name string
	// section is its partition. It is empty for a keeper that sees nothing but the whole node. That
	// one gets a threshold that the same loads cross: as many bytes are free until then.
	section string
	// eviction is the monitor's flag.
	eviction string
	// meter of onnode is how it counts available memory.
	meter string
	// packages are Debian's.
	packages string
	// on and off are commands in the shell, with the threshold in bytes as $THRESHOLD.
	on, off string
}

const (
	// limit and threshold are those of the partition, in MiB.
	limit, threshold = 512, 64
	// free is the memory in MiB until the threshold, beside the pods that are always there.
	free = limit - threshold - 96
)

// partition is a section. Its eviction threshold counts only where the monitor evicts.
var partition = fmt.Sprintf("systemPartition:\n  memoryLimit: %dMi\n  namespaces: [kube-system]\n"+
	"  evictionHard: {memory.available: %dMi}\n", limit, threshold)

// ours is the name of this project's monitor among the keepers.
const ours = "ours"

// keepers has each with the settings that let it act best here. The kubelet's
// kernelMemcgNotification is no keeper of its own: with cgroup v2 the kubelet has no such notifier
// (pkg/kubelet/eviction/threshold_notifier_linux.go, 1.37).
var keepers = []keeper{
	{name: ours, section: partition, eviction: "on", meter: "partition"},
	{name: "ours, with memoryBurst", section: partition + "  memoryBurst: 512Mi\n", eviction: "on", meter: "partition"},
	{name: "nothing", section: partition, eviction: "off", meter: "partition"},
	{
		// It acts by pressure alone on a node without swap. Anonymous memory causes some before the
		// kernel kills only where memory.high slows it down. A second is its shortest duration.
		name: "systemd-oomd", section: partition + fmt.Sprintf("  memoryHigh: %dMi\n", limit-threshold), eviction: "off",
		meter: "partition", packages: "systemd-oomd",
		on: `mkdir -p /etc/systemd/oomd.conf.d
printf '[OOM]\nDefaultMemoryPressureDurationSec=1s\n' >/etc/systemd/oomd.conf.d/league.conf
systemctl set-property --runtime kubepods-system.slice ManagedOOMMemoryPressure=kill ManagedOOMMemoryPressureLimit=20%
systemctl start systemd-oomd.service`,
		off: `systemctl stop systemd-oomd.socket systemd-oomd.service
systemctl set-property --runtime kubepods-system.slice ManagedOOMMemoryPressure=auto`,
	},
	{
		name: "kubelet", meter: "kubelet",
		on: "sed -i \"s/memory.available: 100Mi/memory.available: '$THRESHOLD'/\" " + lab.KubeletConfigPath + `
systemctl restart kubelet.service`,
	},
	{
		name: "earlyoom", meter: "meminfo", packages: "earlyoom",
		on: `echo "EARLYOOM_ARGS=\"-r 0 -M $((THRESHOLD / 1024))\"" >/etc/default/earlyoom
systemctl start earlyoom.service`,
		off: "systemctl stop earlyoom.service",
	},
	{
		// A second is its shortest interval. memory.current would count page cache, so anonymous memory
		// is what it looks at, which leaves out files in memory.
		name: "oomd", section: partition, eviction: "off", meter: "partition", packages: "oomd",
		on: fmt.Sprintf(`cat >/etc/oomd/league.json <<'END'
{"rulesets": [{"name": "partition", "post_action_delay": "1",
"detectors": [["full", {"name": "memory_above",
"args": {"cgroup": "kubepods.slice/kubepods-system.slice", "threshold_anon": "%dM", "duration": "0"}}]],
"actions": [{"name": "kill_by_memory_size_or_growth",
"args": {"cgroup": "kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/*", "post_action_delay": "1"}}]}]}
END
echo 'DAEMON_OPTS="--interval 1 --config /etc/oomd/league.json"' >/etc/default/oomd
systemctl start oomd.service`, limit-threshold),
		off: "systemctl stop oomd.service",
	},
}

// install installs the packages of the keepers. None of their services starts.
func (f *field) install(ctx context.Context, ks []keeper) error {
	var packages []string
	for _, k := range ks {
		if k.packages != "" && !slices.Contains(packages, k.packages) {
			packages = append(packages, k.packages)
		}
	}
	if packages == nil {
		return nil
	}
	all := strings.Join(packages, " ")
	_, err := f.slowly(ctx, `printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
apt-get -qq -o Acquire::Languages=none update
DEBIAN_FRONTEND=noninteractive apt-get -qq --no-install-recommends -y install `+all+` >&2
systemctl disable `+all)
	return err
}

// change switches the former keeper off and the next one on, with new pods beside the loads.
func (f *field) change(ctx context.Context, k keeper) error {
	if f.keeper.off != "" {
		if _, err := f.Run(ctx, f.keeper.off); err != nil {
			return err
		}
	}
	if err := f.remove(ctx, bystanders); err != nil {
		return err
	}
	f.keeper = k
	config, err := lab.KubeletConfig(
		"evictionPressureTransitionPeriod: 1s\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}\n" + k.section,
	)
	if err != nil {
		return err
	}
	arguments := "PARTITION_MONITOR_ARGS=--eviction=" + k.eviction + "\n"
	defaults := lab.File{Path: "/etc/default/node-partition", Data: []byte(arguments)}
	if err := f.CopyTo(ctx, config, defaults); err != nil {
		return err
	}
	monitor := "true"
	if k.section != "" {
		monitor = "systemctl restart " + monitorUnit
	}
	if _, err := f.slowly(ctx, "systemctl stop "+monitorUnit+" && systemctl daemon-reload && "+monitor+
		" && systemctl restart kubelet.service"); err != nil {
		return err
	}
	if err := f.WaitReady(ctx); err != nil {
		return err
	}
	if err := f.start(ctx, bystanders); err != nil {
		return err
	}
	f.threshold = threshold << 20
	if k.section == "" {
		out, err := f.Run(ctx, onNode+" available "+k.meter)
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(out, &f.threshold); err != nil {
			return err
		}
		f.threshold -= free << 20
	}
	_, err = f.slowly(ctx, fmt.Sprintf("THRESHOLD=%d\n%s", f.threshold, k.on))
	return err
}
