package livemove

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// anchor is a process that does nothing but be in a scope: one without processes is none. It ends with ours, however that ends.
type anchor struct {
	cmd   *exec.Cmd
	stdin io.Closer
	once  sync.Once
	gone  chan struct{} // closed when it has ended
}

func newAnchor() (*anchor, error) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a process for the new scope: %w; it needs cat, of coreutils", err)
	}
	return &anchor{cmd: cmd, stdin: stdin, gone: make(chan struct{})}, nil
}

func (a *anchor) pid() uint32 { return uint32(a.cmd.Process.Pid) }

// end ends it, if there is one, and does not wait until it is gone.
func (a *anchor) end() {
	if a == nil {
		return
	}
	a.once.Do(func() {
		_ = a.cmd.Process.Kill()
		_ = a.stdin.Close()
		go func() {
			_ = a.cmd.Wait()
			close(a.gone)
		}()
	})
}
