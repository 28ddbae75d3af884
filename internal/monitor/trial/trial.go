// Package trial applies a configuration for a limited time. After that systemd restores the
// previous one.
package trial

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/oneline"
	"nodepartition/internal/statefile"
	"nodepartition/internal/systemctl"
	"nodepartition/internal/trialend"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
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

	// Unit is the name of the service that ends a trial, without its suffix.
	Unit  = "node-partition-trial"
	timer = Unit + ".timer"
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
	" && ( systemctl start --no-block " + unitname.MonitorService + " || true )"

// Trial is the content of aboutFile.
type Trial struct {
	// From is the path of the file that is tried.
	From string `json:"from"`
	// Until is the time of End by the present clock, for people.
	Until time.Time `json:"until"`
	// End is the time at which the trial ends. It is zero in a description of an earlier version.
	End trialend.Moment `json:"end,omitzero"`
	// Override is a digest of the override when the trial began, empty if there was none.
	Override string `json:"override,omitempty"`
}

// TimeOfDay is the layout of times in messages.
const TimeOfDay = "2006-01-02 15:04:05 MST"

// Read returns the running trial, or nil without one. If the trial's description cannot be read, it
// returns a trial and an error.
func Read() (*Trial, error) {
	if _, err := os.Lstat(kubeletconfig.TrialPath); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	running := &Trial{From: "a file"}
	if err := statefile.Read(aboutFile, running); err != nil {
		return running, fmt.Errorf("a trial is running, and its description cannot be read: %w", err)
	}
	if now, err := trialend.Now(); err == nil && running.End.Boot == now.Boot {
		running.Until = time.Now().Add(running.End.Since - now.Since).Round(time.Second)
	}
	return running, nil
}

// Late returns for how long the trial has been over.
func (t *Trial) Late() time.Duration { return time.Since(t.Until) }

// Overdue reports whether a trial should have ended a while ago.
func Overdue() bool {
	end, _, ok := trialend.Of("/")
	now, err := trialend.Now()
	return ok && err == nil && isLate(end, now)
}

// isLate reports whether an end is over for longer than the timer takes, which comes first.
func isLate(end, now trialend.Moment) bool {
	const patience = 10 * time.Second
	end.Since += patience
	return end.Over(now)
}

// lockCommands takes the lock that keeps two commands from changing a trial at the same time.
func lockCommands() (*os.File, error) {
	lock, err := node.LockFile(lockFile)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another try or keep is running: wait until it ends", err)
	}
	return lock, err
}

// Start applies the section in data, read from the file from, and has systemd restore the previous
// configuration after d. It returns warnings about the section. Without force it refuses one that
// would evict at once.
func Start(ctx context.Context, from string, data []byte, d time.Duration, force bool) (Trial, []string, error) {
	lock, err := lockCommands()
	if err != nil {
		return Trial{}, nil, err
	}
	defer lock.Close()
	if running, err := Read(); running != nil {
		return Trial{}, nil, errors.Join(errRuns, err)
	} else if err != nil {
		return Trial{}, nil, err
	}
	asked, err := judge(from, data)
	if err == nil && !force {
		err = checkUsage(asked)
	}
	if err == nil {
		err = checkWayBack()
	}
	if err != nil {
		return Trial{}, asked.Warnings, err
	}
	started, err := prepareTrial(from, data, d)
	if err == nil {
		err = startTimer(ctx, d)
	}
	if err != nil {
		// The timer may run nevertheless. It then has nothing to do.
		return Trial{}, asked.Warnings, errors.Join(err, removeAll(nextFile, aboutFile))
	}
	err = os.Rename(nextFile, kubeletconfig.TrialPath)
	switch {
	case err == nil:
		err = applySection(ctx, kubeletconfig.TrialPath)
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("the time was over before the section was in place; use a longer --for")
	}
	if err != nil {
		return Trial{}, asked.Warnings, errors.Join(
			fmt.Errorf("not applied, going back: %w", err),
			goBack(context.WithoutCancel(ctx)),
		)
	}
	return started, asked.Warnings, nil
}

// errNone is the error of Keep and End without a trial.
var errNone = errors.New(
	"no trial is running: it was ended, its time is over (see journalctl -u " + Unit + "), or the node was rebooted; partition-monitor try starts one",
)

var errRuns = errors.New(
	"a trial is already running: partition-monitor keep makes it permanent, partition-monitor try --end ends it",
)

// judge reports the problems of a section that is to be tried or kept, as check would if it were in
// force.
func judge(name string, data []byte) (*node.Desired, error) {
	asked, err := node.NewDesired(config.LoadWith("/", name, data))
	switch {
	case err != nil:
		return asked, err
	case asked.ManagedByKubelet != "":
		return asked, errors.New(asked.ManagedByKubelet)
	case asked.Partition == nil:
		return asked, fmt.Errorf(
			"%s: defines no partition; want a systemPartition section that is not empty, and no %s=0 on the kernel command line",
			name, config.OffSwitch,
		)
	}
	return asked, nil
}

// checkWayBack refuses a trial whose end would not restore the state in force now. With an invalid
// configuration the last good units stay in place, which then are the trial's. A configuration that
// was never applied differs from the state in force.
func checkWayBack() error {
	present, err := node.LoadApplied(podmove.Never, node.ReadOnly)
	if present.Problem != nil {
		err = present.Problem
	}
	switch {
	case err != nil:
		return fmt.Errorf(
			"the present configuration is not valid, and a trial could not go back to it: %s; repair it first",
			oneline.Terminal(err.Error()),
		)
	case present.NotApplied:
		return errors.New(node.NotApplied + ", and then try; a trial goes back to the files as they are")
	}
	return nil
}

// prepareTrial writes the files that a trial needs before its timer starts. No program applies them
// yet.
func prepareTrial(from string, data []byte, d time.Duration) (Trial, error) {
	override, err := digestOverride()
	if err != nil {
		return Trial{}, err
	}
	end, err := trialend.Now()
	if err != nil {
		return Trial{}, fmt.Errorf("preparing the trial: %w", err)
	}
	end.Since += d
	t := Trial{From: from, Until: time.Now().Add(d).Truncate(time.Second), End: end, Override: override}
	err = statefile.Write(aboutFile, t, 0o644)
	if err == nil {
		err = os.WriteFile(nextFile, data, 0o644)
	}
	if err != nil {
		return Trial{}, fmt.Errorf("preparing the trial: %w", err)
	}
	return t, nil
}

// digestOverride returns a digest of the override, empty if there is none.
func digestOverride() (string, error) {
	data, err := os.ReadFile(kubeletconfig.OverridePath)
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
	_, err = systemctl.Run(
		ctx,
		"systemd-run", "--quiet", "--collect", "--unit="+Unit,
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
	said, err := systemctl.Show(ctx, property)
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

// applySection reloads systemd, verifies that the partition's unit was generated from the file
// source, and starts it.
func applySection(ctx context.Context, source string) error {
	if err := reloadSystemd(ctx); err != nil {
		return err
	}
	of, err := sectionSource(ctx)
	if err != nil {
		return err
	}
	if of != source {
		return fmt.Errorf(
			"%s was not generated from %s; see journalctl -b -t partition-generator; is partition-generator installed?",
			unitname.System.Slice(), source,
		)
	}
	// The slice wants the partition's other units. Without a unit file systemd would create the slice
	// implicitly, without limits.
	_, err = systemctl.Run(ctx, "systemctl", "start", unitname.System.Slice())
	return err
}

func reloadSystemd(ctx context.Context) error {
	_, err := systemctl.Run(ctx, "systemctl", "daemon-reload")
	return err
}

// sectionSource returns the file from which the partition's unit was generated, empty if systemd
// has no such unit.
func sectionSource(ctx context.Context) (string, error) {
	said, err := systemctl.Show(ctx, "SourcePath", unitname.System.Slice())
	if err != nil {
		return "", err
	}
	return said[0]["SourcePath"], nil
}

// goBack ends the trial as the timer's service does, and stops the timer.
func goBack(ctx context.Context) error {
	if _, err := systemctl.Run(ctx, "/bin/sh", "-c", goBackScript); err != nil {
		return fmt.Errorf("going back: %w; the timer retries", err)
	}
	source, err := sectionSource(ctx)
	if err == nil && source == kubeletconfig.TrialPath {
		err = errors.New(
			"the configuration to go back to is not valid, and the units of the trial stay; repair it (partition-monitor check) and run systemctl daemon-reload",
		)
	}
	return errors.Join(err, stopTimer(ctx))
}

// TimerRuns reports whether systemd will end the trial, or is about to.
func TimerRuns(ctx context.Context) (bool, error) {
	units, err := systemctl.Show(ctx, "ActiveState", timer, Unit+".service")
	if err != nil {
		return false, err
	}
	for _, u := range units {
		if state := u["ActiveState"]; state == "active" || state == "activating" {
			return true, nil
		}
	}
	return false, nil
}

func stopTimer(ctx context.Context) error {
	units, err := systemctl.Show(ctx, "LoadState", timer)
	if err != nil || units[0]["LoadState"] != "loaded" {
		return err
	}
	_, err = systemctl.Run(ctx, "systemctl", "stop", timer)
	return err
}

// End ends the trial before its time is over.
func End(ctx context.Context) error {
	lock, err := lockCommands()
	if err != nil {
		return err
	}
	defer lock.Close()
	running, err := Read()
	if running == nil && err == nil {
		// A trial that was interrupted before it began has a timer and no section.
		if waits, err := TimerRuns(ctx); err != nil || !waits {
			return errors.Join(err, errNone)
		}
	}
	return goBack(ctx)
}

// Keep makes the trial permanent.
func Keep(ctx context.Context) error {
	lock, err := lockCommands()
	if err != nil {
		return err
	}
	defer lock.Close()
	running, err := Read()
	if err != nil {
		return err
	}
	if running == nil {
		return errNone
	}
	data, err := os.ReadFile(kubeletconfig.TrialPath)
	if errors.Is(err, fs.ErrNotExist) {
		return errNone // its time was over just now
	}
	if err != nil {
		return err
	}
	if _, err := judge(kubeletconfig.TrialPath, data); err != nil {
		return err
	}
	if override, err := digestOverride(); err != nil {
		return err
	} else if override != running.Override {
		return fmt.Errorf(
			"%s has changed since the trial began, and would be lost; end the trial (partition-monitor try --end), and try both together",
			kubeletconfig.OverridePath,
		)
	}
	if err := writeOverride(data); err != nil {
		return fmt.Errorf("not kept, the trial continues: %w", err)
	}
	// From here on the timer does no harm. If a step below fails, the timer does it when it expires.
	err = removeAll(kubeletconfig.TrialPath, aboutFile)
	if err == nil {
		err = applySection(ctx, kubeletconfig.OverridePath)
	}
	if err == nil {
		err = stopTimer(ctx)
	}
	if err != nil {
		return fmt.Errorf("kept in %s, and applied when the time of the trial is over: %w", kubeletconfig.OverridePath, err)
	}
	return nil
}

// writeOverride replaces the override atomically and syncs it to disk. If it is a symbolic link,
// its target is replaced.
func writeOverride(data []byte) error {
	path := kubeletconfig.OverridePath
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder writes the names in a folder to disk. Before that a loss of power may undo the rename
// of a file that was synced itself, and the trial that has the section is gone by then.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// removeAll removes files. It is no error if one does not exist.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
