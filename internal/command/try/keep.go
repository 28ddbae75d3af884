package try

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
)

// Keep makes the trial permanent.
func Keep(ctx context.Context, n host.Node) error {
	lock, err := lockCommands(n)
	if err != nil {
		return err
	}
	defer lock.Close()
	running, err := node.ReadTrial(n)
	if err != nil {
		return err
	}
	if running == nil {
		return errNone
	}
	data, err := os.ReadFile(n.Path(kubeletconfig.TrialPath))
	if errors.Is(err, fs.ErrNotExist) {
		return errNone // its time was over just now
	}
	if err != nil {
		return err
	}
	asked, err := judge(n, kubeletconfig.TrialPath, data)
	if err != nil {
		return err
	}
	if override, err := digestOverride(n); err != nil {
		return err
	} else if override != running.Override {
		return fmt.Errorf(
			"%s has changed since the trial began, and would be lost; end the trial (partition-monitor try --end), and try both together",
			kubeletconfig.OverridePath,
		)
	}
	if err := writeOverride(n, data); err != nil {
		return fmt.Errorf("not kept, the trial continues: %w", err)
	}
	// From here on the timer does no harm. If a step below fails, the timer does it when it expires.
	err = removeAll(n, kubeletconfig.TrialPath, aboutFile)
	if err == nil {
		err = applySections(ctx, kubeletconfig.TrialPath, kubeletconfig.OverridePath, asked)
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
func writeOverride(n host.Node, data []byte) error {
	path := n.Path(kubeletconfig.OverridePath)
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
