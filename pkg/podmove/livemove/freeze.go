package livemove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodepartition/internal/systemd"
)

// thawTimeout is for the one thing that is done although the caller's time is over.
const thawTimeout = 5 * time.Second

// frozenRounds moves processes that stand still. A process that leaves a frozen cgroup goes on in the other one.
func (t *transfer) frozenRounds(ctx context.Context) (empty bool, err error) {
	t.moved.Froze = true
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

// thaw lets a scope go on, through the kernel's file where systemd does not. systemd is asked also where the scope does not
// stand still: it may still have to do what it was asked before.
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
		return fmt.Errorf("%s stays frozen; write 0 to %s: %w", scope, filepath.Join(m.dir(cgroup), "cgroup.freeze"), errors.Join(err, writeErr))
	}
	return nil
}

// frozen reports whether somebody wants the processes of a cgroup to stand still. One that is gone has none.
func (m Mover) frozen(cgroup string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(m.dir(cgroup), "cgroup.freeze"))
	if absent(err) {
		return false, nil
	}
	return strings.TrimSpace(string(data)) != "0", err
}

// Recover ends what a Move that was killed has left: it thaws, and completes the scopes that took over. Processes that are
// in both scopes it leaves to the next Move. It is called before the first Move of a process, once.
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
