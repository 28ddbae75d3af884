// Package trialend holds the end of a trial as a fact that both programs see.
//
// A timer ends a trial, and a timer can be stopped. Therefore the trial's description has the end,
// on a clock that is never set: the time since the boot. The generator ends a trial whose time is
// over, and the monitor makes the generator run.
package trialend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/pkg/slices/config"
)

// AboutFile describes the trial. NextFile holds its section before it begins.
const (
	AboutFile = config.StateDir + "/trial.json"
	NextFile  = config.StateDir + "/trial.next"
)

// Moment is a time of one boot. A soft-reboot does not begin another one.
type Moment struct {
	// Boot is the kernel's ID of the boot.
	Boot string `json:"boot"`
	// Since counts from the boot, and includes the time in which the node was suspended
	// (CLOCK_BOOTTIME).
	Since time.Duration `json:"since"`
}

const (
	bootID   = "/proc/sys/kernel/random/boot_id"
	maxBytes = 64 << 10
)

// Now returns the present moment.
func Now() (Moment, error) {
	id, err := os.ReadFile(bootID)
	if err != nil {
		return Moment{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return Moment{}, fmt.Errorf("time since the boot: %w", err)
	}
	return Moment{Boot: strings.TrimSpace(string(id)), Since: time.Duration(now.Nano())}, nil
}

// Over reports whether a trial that ends at m is over. It is not if one of the two is not known.
func (m Moment) Over(now Moment) bool {
	return m.Boot != "" && now.Boot != "" && (m.Boot != now.Boot || now.Since >= m.Since)
}

// Of returns the end of the trial on the node at root, and the file that is tried. It returns false
// if no trial is running, or if its end is not known.
func Of(root string) (end Moment, from string, ok bool) {
	node := host.Root(root)
	if !node.Exists(kubeletconfig.TrialPath) {
		return Moment{}, "", false
	}
	data, err := node.ReadFile(AboutFile, maxBytes)
	var about struct {
		From string `json:"from"`
		End  Moment `json:"end"`
	}
	if err != nil || json.Unmarshal(data, &about) != nil || about.End.Boot == "" {
		return Moment{}, "", false
	}
	return about.End, about.From, true
}

// Remove removes the files of the trial on the node at root, the section first.
func Remove(root string) error {
	for _, name := range []string{NextFile, kubeletconfig.TrialPath, AboutFile} {
		path, err := host.Root(root).Path(name)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
