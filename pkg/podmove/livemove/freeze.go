package livemove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/systemd"
)

// thawTimeout bounds thawing, the one step that runs after the caller's time is over.
const thawTimeout = 5 * time.Second

// frozenRounds moves processes while they are frozen. A process that leaves a frozen cgroup runs on
// in the other one.
func (t *transfer) frozenRounds(ctx context.Context) (empty bool, err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTimeout)
		defer cancel()
		err = errors.Join(err, t.thaw(ctx, t.Scope, t.Cgroup))
	}()
	if err := t.Systemd.Freeze(ctx, t.Scope); err != nil {
		if errors.Is(err, systemd.ErrNoUnit) {
			return t.empty()
		}
		return false, err
	}
	return t.rounds(hardRounds)
}

// thaw thaws a scope, through the kernel's file if systemd does not. It calls systemd even if the
// scope is not frozen: systemd may still have an earlier request to carry out.
func (m Mover) thaw(ctx context.Context, scope, cgroup string) error {
	if _, err := os.Lstat(m.dir(cgroup)); absent(err) {
		return nil
	}
	err := m.Systemd.Thaw(ctx, scope)
	frozen, readErr := m.frozen(cgroup)
	if !frozen {
		return readErr
	}
	if writeErr := writeFile(filepath.Join(m.dir(cgroup), "cgroup.freeze"), "0"); writeErr != nil && !absent(writeErr) {
		return fmt.Errorf(
			"%s stays frozen; write 0 to %s: %w",
			scope, filepath.Join(m.dir(cgroup), "cgroup.freeze"), errors.Join(err, writeErr),
		)
	}
	return nil
}

// frozen reports whether the processes of a cgroup are frozen or about to be. A cgroup that is gone
// has none.
func (m Mover) frozen(cgroup string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(m.dir(cgroup), "cgroup.freeze"))
	if absent(err) {
		return false, nil
	}
	return strings.TrimSpace(string(data)) != "0", err
}

// Recover finishes what a killed Move has left: it thaws the old scopes and completes the new ones.
// If processes are in both scopes, it leaves them to the next Move. It is called once, before the
// first Move of a process.
func (m Mover) Recover(ctx context.Context) error {
	records, err := readRecords(m.StateDir)
	all := []error{err}
	for _, r := range records {
		err := errors.Join(m.thaw(ctx, r.Scope, r.Cgroup), m.finish(r))
		if err == nil {
			err = r.remove(m.StateDir)
		}
		if err != nil {
			all = append(all, fmt.Errorf("finishing the move of %s that was interrupted: %w", r.Scope, err))
		}
	}
	return errors.Join(all...)
}
