// Package trial applies a configuration for a limited time, after which systemd restores the one of before.
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
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
)

// A Trial is a file, kubeletconfig.TrialPath, that the generator and the monitor read in place of the override, and a
// timer that removes it and reloads systemd. Nothing in /etc is touched before it is kept, and a reboot ends it as
// everything in /run. Whatever dies in the middle, either the file is not there, or the timer runs:
//
//	trial.next   written; nobody reads it
//	timer        started; when its time is over it removes trial.next, and then trial.yaml
//	trial.yaml   renamed from trial.next, which fails when the time was over before
//	reload       applied
//
// Keeping goes the other way round: the override is written while the timer runs. Its end then finds the same section.
const (
	nextFile = config.StateDir + "/trial.next"
	// aboutFile tells people and Keep about the trial. No limit depends on it.
	aboutFile = config.StateDir + "/trial.json"
	lockFile  = config.StateDir + "/trial.lock"

	// Unit is the name of the service that ends a trial, without its suffix.
	Unit  = "node-partition-trial"
	timer = Unit + ".timer"
)

// goBackScript ends a trial, or what has begun of one, and may run any number of times. It needs nothing of this program,
// which may be updated or removed meanwhile. systemd expands "$" and "%" in it, and 252 writes ";" to the transient unit's
// file as "\;", which the next reload does not read back: there are none of these.
//
// What follows the reload is for a section that is gone with the trial, and one that comes back. The monitor brings the
// pods back and stops the slices, and is started for that where it has died; where there is no partition left, its
// condition fails, which is no error.
const goBackScript = "rm -f " + nextFile + " " + kubeletconfig.TrialPath + " " + aboutFile +
	" && systemctl daemon-reload && systemctl start slices.target" +
	" && ( systemctl start --no-block " + unitname.MonitorService + " || true )"

// Trial is the content of aboutFile.
type Trial struct {
	// From is the file that is tried.
	From string `json:"from"`
	// Until is when the node goes back by itself.
	Until time.Time `json:"until"`
	// Override is a digest of the override when the trial began, empty where there was none.
	Override string `json:"override,omitempty"`
}

// TimeOfDay is the layout in which people see a moment.
const TimeOfDay = "2006-01-02 15:04:05 MST"

// Read returns the trial that runs, nil where none does.
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
	return running, nil
}

// lockCommands keeps two commands from being in the middle of a trial at once.
func lockCommands() (*os.File, error) {
	lock, err := node.LockFile(lockFile)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another try or keep is running: wait until it ends", err)
	}
	return lock, err
}

// Start applies the section in data, of the file from, and has systemd go back after d. The warnings are about the
// section.
func Start(ctx context.Context, from string, data []byte, d time.Duration) (Trial, []string, error) {
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
		// The timer may run all the same, and then finds nothing to do.
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

// errNone is for whoever wants to keep or end one.
var errNone = errors.New(
	"no trial is running: it was ended, its time is over (see journalctl -u " + Unit + "), or the node was rebooted; partition-monitor try starts one",
)

var errRuns = errors.New(
	"a trial is already running: partition-monitor keep makes it permanent, partition-monitor try --end ends it",
)

// judge says what is wrong with a section that is to be tried or kept, as check would where it were in force.
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

// checkWayBack refuses a trial that would not end in what is in force now: a configuration that is broken leaves the last
// good units in place, which then are the trial's, and one that was never applied is another one.
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

// prepareTrial writes what the trial needs, and nothing that anybody goes by.
func prepareTrial(from string, data []byte, d time.Duration) (Trial, error) {
	override, err := digestOverride()
	if err != nil {
		return Trial{}, err
	}
	t := Trial{From: from, Until: time.Now().Add(d).Truncate(time.Second), Override: override}
	err = statefile.Write(aboutFile, t, 0o644)
	if err == nil {
		err = os.WriteFile(nextFile, data, 0o644)
	}
	if err != nil {
		return Trial{}, fmt.Errorf("preparing the trial: %w", err)
	}
	return t, nil
}

// digestOverride is a digest of the override, empty where there is none.
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

// startTimer has systemd run goBackScript after d, whatever becomes of us.
func startTimer(ctx context.Context, d time.Duration) error {
	after, err := sinceStartup(ctx, d)
	if err != nil {
		return err
	}
	_, err = systemctl.Run(
		ctx,
		"systemd-run", "--quiet", "--collect", "--unit="+Unit,
		"--description=End of a Trial of the System Partition",
		// OnActiveSec= begins anew at each daemon-reload, our own among them (systemd issue 31914).
		"--on-startup="+after, "--timer-property=AccuracySec=100ms",
		// A reload that fails on a busy node is made again.
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

// sinceStartup is the time d from now for OnStartupSec=, which counts from when the service manager was started.
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

// applySection has systemd read the configuration, makes sure that the partition's unit is of the file source, and starts it.
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
	// The slice wants what belongs to it. Without a unit file systemd would make one up, without limits.
	_, err = systemctl.Run(ctx, "systemctl", "start", unitname.System.Slice())
	return err
}

func reloadSystemd(ctx context.Context) error {
	_, err := systemctl.Run(ctx, "systemctl", "daemon-reload")
	return err
}

// sectionSource is the file of which systemd has the partition's unit; empty where there is no such unit.
func sectionSource(ctx context.Context) (string, error) {
	said, err := systemctl.Show(ctx, "SourcePath", unitname.System.Slice())
	if err != nil {
		return "", err
	}
	return said[0]["SourcePath"], nil
}

// goBack does what the timer's service does, and stops the timer.
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

// End goes back before the time is over.
func End(ctx context.Context) error {
	lock, err := lockCommands()
	if err != nil {
		return err
	}
	defer lock.Close()
	running, err := Read()
	if running == nil && err == nil {
		// One that was cut short has a timer and no section.
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
		return errNone // its time was over in this moment
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
	// From here on the timer does no harm, and what is left to do it does as well.
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

// writeOverride replaces the override as a whole, and has it on the disk. Where it is a link, what it leads to is replaced.
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
	return renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path)))
}

// removeAll removes files that may be gone already.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
