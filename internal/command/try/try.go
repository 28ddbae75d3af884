package try

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// A trial consists of a file, kubeletconfig.TrialPath, and a timer. The generator and the monitor
// read the file in place of the override. The timer removes it and reloads systemd. Nothing in /etc
// changes before Keep, and a reboot ends the trial like everything in /run. Whichever process is
// killed in between, either the file does not exist or the timer runs:
//
//	trial.next   written; no program reads it
//	timer        started; when its time is over it removes trial.next, and then trial.yaml
//	trial.yaml   renamed from trial.next, which fails when the time was over before
//	reload       applied
//
// Keep works in the opposite order: it writes the override while the timer runs. If the timer then
// expires, the override has the same section.
const (
	nextFile  = trialend.NextFile
	aboutFile = trialend.AboutFile
	lockFile  = config.StateDir + "/trial.lock"

	// systemd is the programs of the running node.
	systemd host.Programs = ""
)

// goBackScript ends a trial, or one that has only begun, and may run any number of times. It does
// not need this program, which may be updated or removed in the meantime. It contains no "$" and no
// "%", which systemd expands, and no ";", which systemd writes to the transient unit's file as "\;"
// and does not read back at the next reload (seen with 252).
//
// The commands after the reload are for a section that disappears with the trial, and for one that
// comes back. The monitor moves the pods back and stops the slices, and is started for that if it
// has died. If no partition is left, its condition fails, which is not an error.
const goBackScript = "rm -f " + nextFile + " " + kubeletconfig.TrialPath + " " + aboutFile +
	" && systemctl daemon-reload && systemctl start slices.target" +
	" && ( systemctl start --no-block " + partition.MonitorService + " || true )"

// lockCommands takes the lock that keeps two commands from changing a trial at the same time.
func lockCommands(n host.Node) (*node.Lock, error) {
	lock, err := node.LockFile(n.Path(lockFile))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another try or keep is running: wait until it ends", err)
	}
	return lock, err
}

// Start applies the section in data on n, read from the file from, and has systemd restore the
// previous configuration after d. It returns warnings about the section. Without force it refuses
// one that would evict at once.
func Start(
	ctx context.Context,
	n host.Node,
	from string,
	data []byte,
	d time.Duration,
	force bool,
) (state.Trial, []string, error) {
	lock, err := lockCommands(n)
	if err != nil {
		return state.Trial{}, nil, err
	}
	defer lock.Close()
	if running, err := node.ReadTrial(n); running != nil {
		return state.Trial{}, nil, errors.Join(errRuns, err)
	} else if err != nil {
		return state.Trial{}, nil, err
	}
	asked, err := judge(n, from, data)
	if err == nil && !force {
		err = checkUsage(n, asked)
	}
	if err == nil {
		var present node.Followed
		present, err = checkRollback(n)
		asked.Warnings = slices.Concat(asked.Warnings, warnOfMembers(ctx, n, asked), switchedOff(from, present, asked))
	}
	if err != nil {
		return state.Trial{}, asked.Warnings, err
	}
	started, err := prepareTrial(n, from, data, d)
	if err == nil {
		err = startTimer(ctx, d)
	}
	if err != nil {
		// The timer may run nevertheless. It then has nothing to do.
		return state.Trial{}, asked.Warnings, errors.Join(err, removeAll(n, nextFile, aboutFile))
	}
	err = os.Rename(n.Path(nextFile), n.Path(kubeletconfig.TrialPath))
	switch {
	case err == nil:
		err = applySections(ctx, from, kubeletconfig.TrialPath, asked)
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("the time was over before the section was in place; use a longer --for")
	}
	if err != nil {
		return state.Trial{}, asked.Warnings, errors.Join(
			fmt.Errorf("not applied, going back: %w", err),
			goBack(context.WithoutCancel(ctx), n),
		)
	}
	return started, asked.Warnings, nil
}

// errNone is the error of Keep and End without a trial.
var errNone = errors.New(
	"no trial is running: it was ended, its time is over (see journalctl -u " + node.TrialUnit + "), or the node was rebooted; partition-monitor try starts one",
)

var errRuns = errors.New(
	"a trial is already running: partition-monitor keep makes it permanent, partition-monitor try --end ends it",
)

// judge reports the problems of a section that is to be tried or kept, as check would if it were in
// force.
func judge(n host.Node, name string, data []byte) (*node.Desired, error) {
	c, err := config.LoadWith(string(n.Root), name, data)
	asked := node.NewDesired(n, c)
	switch {
	case err != nil:
		return asked, err
	case asked.ManagedByKubelet != "" && len(asked.Partitions) == 0:
		return asked, errors.New(asked.ManagedByKubelet)
	case len(asked.Partitions) == 0:
		return asked, fmt.Errorf(
			"%s: defines no partition; want a non-empty section %s or %s; %s=0 on the kernel command line also disables it",
			name, kubeletconfig.SectionField, kubeletconfig.WorkloadsField, config.OffSwitch,
		)
	}
	return asked, nil
}

// checkRollback refuses a trial whose end would not restore the state in force now. With an invalid
// configuration the last good units stay in place, which then are the trial's. A configuration that
// was never applied differs from the state in force. checkRollback returns the present one.
func checkRollback(n host.Node) (node.Followed, error) {
	files, err := node.ReadDesired(n)
	present, loadErr := node.Load(n, podmove.Never)
	if err == nil && !errors.Is(loadErr, decision.ErrNone) {
		err = present.Problem
	}
	switch {
	case err != nil:
		return present, fmt.Errorf(
			"the present configuration is not valid, and a trial could not go back to it: %s; repair it first",
			text.Terminal(err.Error()),
		)
	case files.NotApplied != nil:
		return present, fmt.Errorf("%w, and then try; the end of a trial applies the files as they are on disk", files.NotApplied)
	}
	return present, nil
}

// prepareTrial writes the files that a trial needs before its timer starts. No program applies them
// yet.
func prepareTrial(n host.Node, from string, data []byte, d time.Duration) (state.Trial, error) {
	override, err := digestOverride(n)
	if err != nil {
		return state.Trial{}, err
	}
	end, err := trialend.Now()
	if err != nil {
		return state.Trial{}, fmt.Errorf("preparing the trial: %w", err)
	}
	end.Since += d
	t := state.Trial{From: from, Until: time.Now().Add(d).Truncate(time.Second), End: end, Override: override}
	err = host.WriteState(n.Path(aboutFile), t, 0o644)
	if err == nil {
		err = os.WriteFile(n.Path(nextFile), data, 0o644)
	}
	if err != nil {
		return state.Trial{}, fmt.Errorf("preparing the trial: %w", err)
	}
	return t, nil
}

// digestOverride returns a digest of the override, empty if there is none.
func digestOverride(n host.Node) (string, error) {
	data, err := os.ReadFile(n.Path(kubeletconfig.OverridePath))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// startTimer has systemd run goBackScript after d, even if this program has ended.
func startTimer(ctx context.Context, d time.Duration) error {
	after, err := sinceStartup(ctx, d)
	if err != nil {
		return err
	}
	_, err = systemd.Run(
		ctx,
		"systemd-run", "--quiet", "--collect", "--unit="+node.TrialUnit,
		"--description=End of a Trial of the System Partition",
		// OnActiveSec= starts over at each daemon-reload, also at our own (systemd issue 31914).
		"--on-startup="+after, "--timer-property=AccuracySec=100ms",
		// No target pulls a transient unit in: "systemctl isolate" and "rescue" would stop it.
		"--timer-property=IgnoreOnIsolate=yes", "--property=IgnoreOnIsolate=yes",
		"--timer-property=DefaultDependencies=no", "--property=DefaultDependencies=no",
		"--timer-property=Conflicts=shutdown.target", "--timer-property=Before=shutdown.target",
		"--property=Conflicts=shutdown.target", "--property=Before=shutdown.target",
		// A reload that fails on a busy node is retried.
		"--property=Type=oneshot", "--property=Restart=on-failure", "--property=RestartSec=5s",
		"/bin/sh", "-c", goBackScript,
	)
	if err != nil {
		return fmt.Errorf(
			"the timer that ends the trial cannot be started, nothing was applied: %w (if one is left over: partition-monitor try --end)",
			err,
		)
	}
	return nil
}

// sinceStartup returns the value of OnStartupSec= for the time d from now. systemd counts it from
// the start of the service manager.
func sinceStartup(ctx context.Context, d time.Duration) (string, error) {
	const property = "UserspaceTimestampMonotonic"
	said, err := systemd.Show(ctx, property)
	if err != nil {
		return "", err
	}
	began, err := strconv.ParseInt(said[0][property], 10, 64) // in microseconds
	if err != nil {
		return "", fmt.Errorf("systemctl show: %s: %w", property, err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "", err
	}
	return strconv.FormatInt(now.Nano()/1000-began+d.Microseconds(), 10) + "us", nil
}

// applySections reloads systemd, verifies that the units of the partitions were generated from
// their files, and starts them. Sections of the document name are in the file source now.
func applySections(ctx context.Context, name, source string, asked *node.Desired) error {
	if err := reloadSystemd(ctx); err != nil {
		return err
	}
	for _, p := range asked.Partitions {
		slice := p.Name.Slice()
		of, err := sectionSource(ctx, slice)
		if err != nil {
			return err
		}
		wanted := asked.SectionFile(p.Name)
		if wanted == name {
			wanted = source
		}
		if of != partition.PlainPath(wanted) {
			return fmt.Errorf(
				"%s was not generated from %s; see journalctl -b -t partition-generator; is partition-generator installed?",
				slice,
				wanted,
			)
		}
		// The slice wants the partition's other units. Without a unit file systemd would create the slice
		// implicitly, without limits.
		if _, err = systemd.Run(ctx, "systemctl", "start", slice); err != nil {
			return err
		}
	}
	return nil
}

// switchedOff returns a warning for each partition in force that a trial of the document name ends:
// the document stands in for the file that has its section.
func switchedOff(name string, present node.Followed, asked *node.Desired) []string {
	var warnings []string
	for i := range present.Partitions {
		p := &present.Partitions[i]
		if p.Off || asked.Partition(p.Name) != nil || asked.IsKubelets(p.Name) {
			continue
		}
		warnings = append(warnings, fmt.Sprintf(
			"%s: has no %s: the partition is switched off while the trial runs, and its pods are moved back",
			name, config.SectionPath(p.Name),
		))
	}
	return warnings
}

func reloadSystemd(ctx context.Context) error {
	_, err := systemd.Run(ctx, "systemctl", "daemon-reload")
	return err
}

// sectionSource returns the file from which the unit of a partition was generated, empty if systemd
// has no such unit.
func sectionSource(ctx context.Context, slice string) (string, error) {
	said, err := systemd.Show(ctx, "SourcePath", slice)
	if err != nil {
		return "", err
	}
	return said[0]["SourcePath"], nil
}

// goBack ends the trial as the timer's service does, and stops the timer.
func goBack(ctx context.Context, n host.Node) error {
	if _, err := systemd.Run(ctx, "/bin/sh", "-c", goBackScript); err != nil {
		return fmt.Errorf("going back: %w; the timer retries", err)
	}
	return errors.Join(leftTrial(n), stopTimer(ctx))
}

// leftTrial returns an error if the units of a trial that has ended are still there.
func leftTrial(n host.Node) error {
	d, err := decision.Read(string(n.Root))
	switch {
	case errors.Is(err, decision.ErrNone):
		return nil
	case err != nil:
		return err
	//guard: a trial whose units stay has not ended
	case d.Trial:
		return errors.New(
			"the configuration to go back to is not valid, and the units of the trial stay; repair it (partition-monitor check) and run systemctl daemon-reload",
		)
	}
	return nil
}

func stopTimer(ctx context.Context) error {
	units, err := systemd.Show(ctx, "LoadState", node.TrialTimer)
	if err != nil || units[0]["LoadState"] != "loaded" {
		return err
	}
	_, err = systemd.Run(ctx, "systemctl", "stop", node.TrialTimer)
	return err
}

// End ends the trial before its time is over.
func End(ctx context.Context, n host.Node) error {
	lock, err := lockCommands(n)
	if err != nil {
		return err
	}
	defer lock.Close()
	running, err := node.ReadTrial(n)
	if running == nil && err == nil {
		// A trial that was interrupted before it began has a timer and no section.
		if waits, err := node.TrialTimerRuns(ctx, n); err != nil || !waits {
			return errors.Join(err, errNone)
		}
	}
	return goBack(ctx, n)
}

// removeAll removes files. It ignores files that do not exist.
func removeAll(n host.Node, names ...string) error {
	var errs []error
	for _, name := range names {
		if err := os.Remove(n.Path(name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
