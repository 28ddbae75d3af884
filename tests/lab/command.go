package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command runs a program that makes something for the lab. The error holds the end of its output.
// The program ends with this process, however that ends, and with the context, and so do all its
// children. mmdebstrap and go start many of them, and a child that continued would write into a
// folder that another process removes. mmdebstrap also mounts the host's /sys and /dev into its
// tree. No other process may see these mounts: removing the tree would remove their content. A host
// that refuses namespaces refuses mounts, too.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	err := run(ctx, &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Setpgid: true,
		// Of a process namespace the kernel kills all when its first process ends.
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS,
	}, syscall.SIGKILL, dir, env, name, args)
	if errors.Is(err, syscall.EPERM) {
		err = run(ctx, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}, syscall.SIGTERM, dir, env, name, args)
	}
	return err
}

// hostCommand runs a program that changes this machine. The program is not killed when this process
// is.
func hostCommand(ctx context.Context, env []string, name string, args ...string) error {
	return run(ctx, &syscall.SysProcAttr{Setpgid: true}, syscall.SIGTERM, "", env, name, args)
}

// run runs a program in a process group of its own, and sends a signal to the group when the
// context ends.
func run(
	ctx context.Context,
	attr *syscall.SysProcAttr,
	sig syscall.Signal,
	dir string,
	env []string,
	name string,
	args []string,
) error {
	path, err := toolPath(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	if env != nil {
		cmd.Env = append(cmd.Environ(), env...)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = attr
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, sig) }
	cmd.WaitDelay = 10 * time.Second
	ended, err := start(cmd)
	if err == nil {
		err = <-ended
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		text := lastLines(stderr.String(), 12)
		if text == "" {
			text = lastLines(stdout.String(), 12)
		}
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

// start starts a program and returns a channel for its end. The kernel sends the parent-death
// signal when the thread that started the child ends, not the process. So this thread lives until
// the program has ended.
func start(cmd *exec.Cmd) (ended <-chan error, err error) {
	started, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return done, <-started
}

// withTemp makes programs keep their temporary files in a folder of an entry that is being made,
// and removes the folder after that: /tmp may be small, and in memory.
func withTemp(entry string, build func(env []string) error) error {
	tmp := filepath.Join(entry, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("temporary files: %w", err)
	}
	err := build([]string{"TMPDIR=" + tmp, "GOTMPDIR=" + tmp})
	return errors.Join(err, os.RemoveAll(tmp))
}

// lastLines returns the end of a text, where programs give the reason for giving up.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
