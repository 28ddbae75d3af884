package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is a program of the control plane that runs on this machine. The kernel kills it when this
// process ends, however it ends.
type daemon struct {
	name    string
	log     string // the file of its messages, after those of earlier programs
	began   int64  // the offset of its own messages
	command *exec.Cmd
	exited  chan struct{}
	waitErr error // set before exited is closed
}

// startDaemon starts a program that logs to a file in dir, after the messages of earlier ones.
func startDaemon(dir, path string, args ...string) (*daemon, error) {
	d := &daemon{name: filepath.Base(path), exited: make(chan struct{})}
	d.log = filepath.Join(dir, d.name+".log")
	log, err := os.OpenFile(d.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	defer log.Close()
	if d.began, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	d.command = exec.Command(path, args...)
	d.command.Dir, d.command.Stdout, d.command.Stderr = dir, log, log
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	ended, err := start(d.command)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	go func() {
		d.waitErr = <-ended
		close(d.exited)
	}()
	return d, nil
}

// err returns an error with the end of the program, or nil while it runs.
func (d *daemon) err() error {
	select {
	case <-d.exited:
		status := "status 0"
		if d.waitErr != nil {
			status = d.waitErr.Error()
		}
		return fmt.Errorf("%s has ended: %s: %s", d.name, status, tailFile(d.log, 5))
	default:
		return nil
	}
}

// portTaken reports whether the program has ended because another process had one of its ports.
func (d *daemon) portTaken() bool {
	if d.err() == nil {
		return false
	}
	messages, err := d.messages()
	return err == nil && strings.Contains(messages, "address already in use")
}

// messages returns the program's messages so far.
func (d *daemon) messages() (string, error) {
	log, err := os.ReadFile(d.log)
	if err != nil {
		return "", err
	}
	return string(log[d.began:]), nil
}

// kill ends the program at once and waits until it is gone. It returns no error
// if the program has ended, or was never started.
func (d *daemon) kill() error {
	if d == nil {
		return nil
	}
	if err := d.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", d.name, err)
	}
	select {
	case <-d.exited:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("end %s: process %d is there 30 s after SIGKILL", d.name, d.command.Process.Pid)
	}
}

// whileRunning returns a context that also ends when one of the programs ends. Its cause names the
// program and the reason.
func whileRunning(ctx context.Context, daemons ...*daemon) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	for _, d := range daemons {
		go func() {
			select {
			case <-d.exited:
				stop(d.err())
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { stop(nil) }
}
