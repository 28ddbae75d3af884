package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// process identifies a process, so that a later process with the same number is never taken for it.
type process struct {
	// PID is its number.
	PID int `json:"pid"`
	// StartTime is when it started, in clock ticks since boot, from /proc/PID/stat.
	StartTime uint64 `json:"startTime"`
	// BootID is the boot of the host in which it started: start times begin at zero with each boot.
	BootID string `json:"bootID"`
}

// errGone is the result of a signal to a process that has ended.
var errGone = errors.New("the process has ended")

// identify returns the identity of the process that has this number now.
func identify(pid int) (process, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, errors.Join(errGone, err))
	}
	stat, err := proc.Stat()
	if err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, errors.Join(errGone, err))
	}
	if stat.State == "Z" || stat.State == "X" {
		return process{}, fmt.Errorf("process %d: %w", pid, errGone)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, StartTime: stat.Starttime, BootID: string(boot[:len(boot)-1])}, nil
}

// Alive reports whether this very process runs.
func (p process) alive() bool {
	now, err := identify(p.PID)
	return err == nil && now == p
}

// Signal sends a signal to this very process. A pidfd binds the number before the identity is
// checked, so that no other process can get it in between.
func (p process) signal(sig unix.Signal) error {
	if p == (process{}) { // of a machine that ended before it was identified
		return errGone
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.alive() {
		return errGone
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("process %d: send %s: %w", p.PID, sig, err)
	}
	return nil
}

// wait returns when the process has ended.
func (p process) wait(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended: %w", p.PID, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// end asks the process to end, and kills it if it does not end in time.
func (p process) end(ctx context.Context, grace time.Duration) error {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := p.signal(sig); errors.Is(err, errGone) {
			return nil
		} else if err != nil {
			return err
		}
		waitCtx, cancel := context.WithTimeout(ctx, grace)
		err := p.wait(waitCtx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("process %d is there after SIGTERM and SIGKILL", p.PID)
}

// cpuTime returns the CPU time that the machine has used on this host since its last start, or 0 if
// it has ended.
func (n *Node) cpuTime() time.Duration {
	proc, err := procfs.NewProc(n.process.PID)
	if err != nil || !n.process.alive() {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// availableMiB returns the memory of this host that is free or can be freed.
func availableMiB() (int, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := fs.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("memory of this machine: %w", err)
	}
	if info.MemAvailableBytes == nil {
		return 0, errors.New("memory of this machine: /proc/meminfo has no MemAvailable")
	}
	return int(*info.MemAvailableBytes >> 20), nil
}
