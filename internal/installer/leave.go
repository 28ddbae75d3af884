package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/pkg/slices/config"
)

// offMark is the first line of the section that switches all partitions off while programs are
// removed. The scripts of packages know it by this line, too, and remove one that is left over.
const offMark = "# The package is being removed."

// off is a section without a partition. As a trial it counts in place of all others.
const off = offMark + `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
systemPartition: {}
workloadPartitions: {}
`

// isOurOff reports whether the present trial is the work of a removal.
func (h *Host) isOurOff() bool {
	data, err := h.Root.ReadFile(kubeletconfig.TrialPath, 1<<20)
	return err == nil && strings.HasPrefix(string(data), offMark)
}

// switchOff lifts the limits of all partitions, has the monitor move the pods back, and stops it.
// The packages do the same before their files are removed.
func (h *Host) switchOff(ctx context.Context) error {
	if len(h.slices(generated)) == 0 && !h.runs(ctx) {
		return nil
	}
	if !h.isOurOff() {
		// A trial whose timer is stopped still ends by its description if this fails.
		h.attempt(ctx, "stop", "node-partition-trial.timer")
		if err := h.Mkdir(config.StateDir, 0o755); err != nil {
			return err
		}
		if err := h.WriteBytes(kubeletconfig.TrialPath, []byte(off), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{trialend.NextFile, trialend.AboutFile} {
		if err := h.Remove(name); err != nil {
			return err
		}
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	// It may have been stopped. If there is nothing to move, its condition fails.
	h.attempt(ctx, "start", partition.MonitorService)
	h.await(ctx, h.slices(kubepods))
	h.attempt(ctx, "stop", partition.MonitorService)
	return ctx.Err()
}

// attempt calls systemctl for what need not succeed.
func (h *Host) attempt(ctx context.Context, args ...string) {
	if _, err := h.systemctl(ctx, args...); err != nil {
		h.Say("%v", err)
	}
}

// The looks, a second apart, after which await gives up: those in which no pod has left although
// the monitor moves one, which gets its grace period and six minutes, and those in which it moves
// none.
const (
	patience = 600
	idleness = 10
)

// await waits until the monitor has moved out of the slices what it can move.
func (h *Host) await(ctx context.Context, slices []string) {
	remain, still, idle := h.pods(slices), 0, 0
	for still < patience && idle < idleness && h.runs(ctx) && pause(ctx) {
		still++
		idle++
		switch now := h.pods(slices); {
		case now < remain:
			remain, still, idle = now, 0, 0
			h.Say("%d pods are left in the partition", now)
		case h.moves(ctx):
			idle = 0
		}
	}
}

// pods counts the pods in slices.
func (h *Host) pods(slices []string) int {
	n := 0
	for _, slice := range slices {
		root, err := h.Root.Path(path.Join(kubepods, slice))
		if err != nil {
			continue
		}
		_ = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				if _, _, _, ok := partition.ParsePodSlice(entry.Name()); ok {
					n++
					return filepath.SkipDir
				}
			}
			return nil // a pod that ends just now
		})
	}
	return n
}

// runs reports whether the monitor runs, or systemd is about to start it.
func (h *Host) runs(ctx context.Context) bool {
	return slices.Contains([]string{"active", "activating", "reloading", "deactivating"}, h.monitorState(ctx))
}

// monitorState returns the state of the monitor's unit, empty if it is not known.
func (h *Host) monitorState(ctx context.Context) string {
	units, err := h.show(ctx, "ActiveState", partition.MonitorService)
	if err != nil {
		return ""
	}
	return units[0]["ActiveState"]
}

// moves reports whether the monitor has a pod to move.
func (h *Host) moves(ctx context.Context) bool {
	status, err := h.status(ctx, h.monitor(h.has()))
	return err == nil && status.Moves()
}

// clearUp does what the packages do after their files were removed: systemd forgets the units. A
// slice that was not there before is stopped if it is empty. One that has pods stays, without
// limits: a static pod leaves it at its next start.
func (h *Host) clearUp(ctx context.Context, before []string) error {
	h.attempt(ctx, "stop", "partition-generator-*")
	h.attempt(ctx, "reset-failed", "partition-*")
	if err := h.stopEmpty(ctx, before); err != nil {
		return err
	}
	h.realize(ctx)
	return h.emptyStateDir()
}

// realize has systemd write the limits of the slices. Version 257 writes none that a reload has
// changed.
func (h *Host) realize(ctx context.Context) {
	for _, slice := range h.slices(kubepods) {
		h.attempt(ctx, "set-property", "--runtime", slice, "Markers=")
	}
}

// stopEmpty stops the slices that are empty and were not there before. The monitor does that if it
// runs, and it does not with settings that keep it from starting.
func (h *Host) stopEmpty(ctx context.Context, before []string) error {
	for _, slice := range h.slices(kubepods) {
		if slices.Contains(before, slice) {
			continue
		}
		data, err := h.Root.ReadFile(path.Join(kubepods, slice, "cgroup.events"), 4096)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("%s: %w", slice, err)
		case strings.Contains(string(data), "populated 0"):
			h.attempt(ctx, "stop", slice)
		}
	}
	return nil
}

// emptyStateDir removes what the programs keep in /run. The folder itself stays until the next
// boot: it is a mount point for this process.
func (h *Host) emptyStateDir() error {
	entries, err := h.Root.ReadDir(config.StateDir, maxCgroups)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	for _, e := range entries {
		if err := h.RemoveTree(path.Join(config.StateDir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
