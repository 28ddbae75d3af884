package slices

import (
	"path"
	"slices"

	"github.com/coreos/go-systemd/v22/unit"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// program is the name of this program, in each of the folders of systemd for generators.
const program = "partition-generator"

// programDirs lists the folders of generators in the order in which systemd looks at them
// (systemd.generator(7)). The last is the usual one.
var programDirs = []string{
	"/run/systemd/system-generators", "/etc/systemd/system-generators",
	"/usr/local/lib/systemd/system-generators", "/usr/lib/systemd/system-generators",
}

// programPath returns the path at which systemd finds this program.
func programPath(root host.Root) string {
	last := programDirs[len(programDirs)-1]
	for _, dir := range programDirs {
		if root.Exists(path.Join(dir, program)) {
			last = dir
			break
		}
	}
	return path.Join(last, program)
}

// watched returns the path of this program if the file at OverridePath is to be watched, and can
// be. It is empty otherwise.
func watched(root host.Root, c *config.Config) string {
	if !c.Kubelet.Settings.Watches() || !c.Kubelet.Watchable {
		return ""
	}
	return programPath(root)
}

// watches reports whether the plan has WatchPath. A node without a section and without the file has
// units that wait for it, unless its kubelet makes the partition itself, and WatchPath once the
// file was there in this boot: those that wait act once.
func (in *Input) watches() bool {
	_, kept := in.kept[WatchPath]
	missing := slices.Contains(in.config.Kubelet.Awaited.Files, kubeletconfig.OverridePath)
	return in.program != "" && (kept || !missing)
}

const watchHeader = `# Written by partition-generator at boot and at every daemon-reload; what is
# changed here is lost. With ` + kubeletconfig.WatchKey + `=` + kubeletconfig.WatchOff + ` in
# ` + kubeletconfig.SettingsPath + ` it is not there from the next boot on.

`

// addWatch adds the units that apply a change of the file at OverridePath when it comes, and
// returns the path unit; empty without one.
//
// There are two services, because a path unit looks at nothing while the service runs that it
// starts (path_enter_running, src/core/path.c). An edit would be lost that comes while systemd
// is reloaded for the one before. WatchService takes no time. It is ordered after ReadService, so
// that an edit during a run starts another run after it.
//
// A path unit does not look at what was changed before it was started, by the boot or again by a
// reload (path_coldplug). Therefore ReadService runs when the path unit is started, and again after
// it has reloaded systemd. ApplyService starts it after other reloads. A run that finds what is in
// force ends at once.
func addWatch(add func(string, ...*unit.UnitOption), in *Input) string {
	if !in.watches() {
		return ""
	}
	// Editors write a file several times, and programs may do so for hours.
	unlimited := option("Unit", "StartLimitIntervalSec", "0")
	add(WatchPath, slices.Concat(about("Watch the Configuration of the System Partition", unlimited), watchesFrom(in), []*unit.UnitOption{
		option("Unit", "Wants", ReadService),
		option("Path", "PathChanged", kubeletconfig.OverridePath),
		option("Path", "TriggerLimitIntervalSec", "0"),
	})...)
	add(WatchService, about("Have a Changed Configuration of the System Partition Read", unlimited,
		option("Unit", "After", ReadService),
		option("Service", "Type", "oneshot"),
		option("Service", "ExecStart", "/usr/bin/systemctl start --no-block "+ReadService),
		option("Service", "LogLevelMax", "notice"))...)
	// A reload starts nothing that an active unit wants. So a watch that begins with a reload, as
	// after an upgrade, is started here: ApplyService starts ReadService after each reload.
	read := about("Read a Changed Configuration of the System Partition", unlimited,
		//guard: a watch that begins with a reload is started
		option("Unit", "After", WatchPath), option("Unit", "Wants", WatchPath))
	// After a reload that failed, nothing has been asked for.
	forget, watch := " || { rm -f "+decision.WatchFile+"; false; }", " && systemctl start --no-block "+WatchService
	// A kubelet that is started now waits for the partition.
	add(ReadService, slices.Concat(read, before(in.kubelets), []*unit.UnitOption{
		option("Service", "Type", "oneshot"),
		// The status is 0 if there is something to apply. Any other skips the service.
		option("Service", "ExecCondition", "/bin/sh -c \"exec "+in.program+" --changed\""),
		option("Service", "SyslogIdentifier", program), // and not the shell's
		option("Service", "LogLevelMax", "notice"),
	}, reloads(forget, watch))...)
	return WatchPath
}
