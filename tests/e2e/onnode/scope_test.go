//go:build node

package onnode

import (
	"os/exec"
	"strings"
	"testing"
)

// scope is a scope of systemd-run, which makes it as a runtime makes one for a container.
type scope struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{}
}

// startScope runs a shell script in a scope. The scope exists when this returns.
func startScope(tb testing.TB, slice, name, script string, properties ...string) *scope {
	tb.Helper()
	cmd := exec.Command("systemd-run", "--quiet", "--scope", "--unit="+name, "--slice="+slice)
	for _, p := range properties {
		cmd.Args = append(cmd.Args, "--property="+p)
	}
	cmd.Args = append(cmd.Args, "/bin/sh", "-c", script)
	s := &scope{name: name, cmd: cmd, gone: make(chan struct{})}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.gone)
	}()
	tb.Cleanup(func() { s.stop(tb) })
	eventually(tb, name+" runs", func() bool {
		out, _ := exec.Command("systemctl", "show", "--value", "-p", "ControlGroup", name).Output()
		return strings.HasSuffix(strings.TrimSpace(string(out)), "/"+name)
	})
	return s
}

func (s *scope) running() bool {
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

// stop kills the processes in the scope and waits until it is gone.
func (s *scope) stop(tb testing.TB) {
	tb.Helper()
	_ = s.cmd.Process.Kill()
	<-s.gone
	_ = exec.Command("systemctl", "kill", "--signal=KILL", s.name).Run()
	eventually(tb, s.name+" is gone", func() bool {
		out, _ := exec.Command("systemctl", "show", "--value", "-p", "ActiveState", s.name).Output()
		state := strings.TrimSpace(string(out))
		if state == "failed" {
			_ = exec.Command("systemctl", "reset-failed", s.name).Run()
		}
		return state == "inactive"
	})
}
