package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reboot reboots the machine as systemctl does and returns when its ssh answers again. Its files are as they
// were: the seed is applied once in a node's life. The node's Port may change.
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
	// The connection may end before the command's status comes.
	if _, err := n.Run(offCtx, "systemctl reboot"); errors.As(err, new(*CommandError)) {
		return err
	}
	n.conn.close()
	if n.qemu == nil || !n.machine.NoReboot {
		return n.waitSSH(ctx, boot)
	}
	// The machine ends where it would reset, and a new qemu boots its disks. One that goes on keeps what it has
	// translated, and has to throw it away page by page as the new boot writes over the memory of the old: 12 s
	// before PID 1 started instead of 1 (qemu 7.2).
	if err := n.process.wait(offCtx); err != nil {
		return fmt.Errorf("%w: the console's end:\n%s", err, tailFile(n.ConsolePath(), 15))
	}
	return n.startUp(ctx, boot)
}

// PowerCycle cuts the machine off, as a loss of power does, and boots it again from its disks. Only nodes that
// this process has started have it.
func (n *Node) PowerCycle(ctx context.Context) error {
	if n.qemu == nil {
		return fmt.Errorf("power cycle of node %s: another process has started it", n.Name)
	}
	err := n.qemu.kill()
	n.conn.close()
	if err == nil {
		err = n.startUp(ctx, "")
	}
	if err != nil {
		return fmt.Errorf("power cycle of node %s: %w", n.Name, err)
	}
	return nil
}

// Stop ends the machine at once and removes all that is left of it. It is no error when it has ended.
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
		// Whoever started it may have been killed between a new machine and the note of it.
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

// endGrace is how long a machine may take to end when it is asked to.
const endGrace = 10 * time.Second

// shutdownTimeout is for a clean end: the kubelet and its containers have to stop.
const shutdownTimeout = time.Minute

// Shutdown powers the machine off as systemctl does, and then is Stop. A machine that does not answer or does
// not end in time is ended by Stop.
func (n *Node) Shutdown(ctx context.Context) error {
	if !n.process.Alive() {
		return n.Stop(ctx)
	}
	offCtx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if _, err := n.Run(offCtx, "systemctl poweroff"); !errors.As(err, new(*CommandError)) && n.process.Alive() {
		_ = n.process.wait(offCtx)
	}
	return n.Stop(ctx)
}
