package livemove

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// anchor is a process that only keeps a scope alive: a scope without processes ends. It ends with
// our process, however that ends.
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

// end kills the anchor, if there is one, and does not wait until it is gone.
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
