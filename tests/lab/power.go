package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reboot reboots the machine with systemctl and returns when its ssh answers again. Its files stay
// as they were: the seed is applied once in a node's life. The node's Port may change.
func (n *Node) Reboot(ctx context.Context) error {
	if err := n.reboot(ctx); err != nil {
		return fmt.Errorf("reboot node %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) reboot(ctx context.Context) error {
	boot, err := n.bootID(ctx)
	if err != nil {
		return err
	}
	offCtx, cancel := context.WithTimeoutCause(ctx, shutdownTimeout, fmt.Errorf("still up after %s", shutdownTimeout))
	defer cancel()
	// The connection may end before the command's status arrives.
	if _, err := n.Run(offCtx, "systemctl reboot"); errors.As(err, new(*CommandError)) {
		return err
	}
	n.conn.close()
	if n.qemu == nil || !n.machine.NoReboot {
		return n.waitSSH(ctx, boot)
	}
	// The machine ends at a reset, and a new qemu boots its disks. A qemu that continued would keep
	// its translated code, and throw it away page by page as the new boot writes over the memory of
	// the old: PID 1 started after 12 s instead of 1 (qemu 7.2).
	if err := n.process.wait(offCtx); err != nil {
		return fmt.Errorf("%w: the console's end:\n%s", err, tailFile(n.ConsolePath(), 15))
	}
	return n.startUp(ctx, boot)
}

// Stop ends the machine at once and removes all its files. It returns no error if the machine has
// ended.
func (n *Node) Stop(ctx context.Context) error {
	unlock, err := n.cache.lockNode(ctx, n.Name)
	if err != nil {
		return err
	}
	defer unlock()
	n.conn.close()
	if n.qemu != nil {
		err = n.qemu.kill()
	} else if err = n.process.end(ctx, endGrace); err == nil {
		// The process that started it may have been killed after starting a new machine and before
		// recording it.
		err = endMachine(ctx, n.ConsolePath())
	}
	if err != nil {
		return fmt.Errorf("stop node %s: %w", n.Name, err)
	}
	if n.release != nil {
		n.release()
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		return fmt.Errorf("stop node %s: %w", n.Name, err)
	}
	return nil
}

// endGrace is the time that a machine has to end when it is asked to.
const endGrace = 10 * time.Second

// shutdownTimeout is for a clean end: the kubelet and its containers have to stop.
const shutdownTimeout = 3 * time.Minute

// shutdown powers the machine off with systemctl, and then calls Stop. Stop ends a machine that
// does not answer or does not end in time.
func (n *Node) shutdown(ctx context.Context) error {
	if !n.process.alive() {
		return n.Stop(ctx)
	}
	offCtx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if _, err := n.Run(offCtx, "systemctl poweroff"); !errors.As(err, new(*CommandError)) && n.process.alive() {
		_ = n.process.wait(offCtx)
	}
	return n.Stop(ctx)
}
