package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// daemon is a program of the control plane that runs on this machine. The kernel kills it when this process ends, however
// it ends.
type daemon struct {
	name    string
	log     string // the file of its messages
	command *exec.Cmd
	exited  chan struct{}
	waitErr error // set before exited is closed
}

// startDaemon starts a program whose messages go to a file in dir.
func startDaemon(dir, path string, args ...string) (*daemon, error) {
	d := &daemon{name: filepath.Base(path), exited: make(chan struct{})}
	d.log = filepath.Join(dir, d.name+".log")
	log, err := os.Create(d.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	defer log.Close()
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

// err tells how the program ended, and is nil while it runs.
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

// portTaken reports whether the program has ended because somebody else had a port of its own.
func (d *daemon) portTaken() bool {
	if d.err() == nil {
		return false
	}
	log, err := os.ReadFile(d.log)
	return err == nil && bytes.Contains(log, []byte("address already in use"))
}

// kill ends the program at once and waits until it is gone. It is no error when it has ended, or was never started.
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
