package output

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// patience is the time after which a person wants to know that a command still works.
	patience = 2 * time.Second
	// eraseLine moves the cursor to the start of the line, and erases it.
	eraseLine = "\r\x1b[K"
)

// Progress writes to a terminal how long something takes, from two seconds on, and how long it may
// take, 0 for no bound, until stop is called, which erases it. On a terminal whose cursor does not
// move, and on none, it writes nothing.
func (t Terminal) Progress(w io.Writer, name string, atMost time.Duration) (stop func()) {
	if !t.Moves {
		return func() {}
	}
	bound := ""
	if atMost > 0 {
		bound = ", " + atMost.String() + " at most"
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		begin, tick := time.Now(), time.NewTicker(time.Second)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-end:
				if shown {
					fmt.Fprint(w, eraseLine)
				}
				return
			case <-tick.C:
				if took := time.Since(begin); took >= patience {
					shown = true
					fmt.Fprintf(w, "%s%s: %d s%s", eraseLine, name, int(took.Seconds()), bound)
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}

// Before returns a file that calls begin before it is written to for the first time. Other values
// than files are returned as they are.
func Before(w io.Writer, begin func()) io.Writer {
	if f, ok := w.(*os.File); ok {
		return &announced{file: f, begin: sync.OnceFunc(begin)}
	}
	return w
}

// announced is a file, also to Of. It has no other methods of os.File, by which io.WriteString
// would write past begin.
type announced struct {
	file  *os.File
	begin func()
}

func (a *announced) Write(p []byte) (int, error) {
	a.begin()
	return a.file.Write(p)
}

func (a *announced) Read(p []byte) (int, error) { return a.file.Read(p) }
func (a *announced) Close() error               { return a.file.Close() }
func (a *announced) Fd() uintptr                { return a.file.Fd() }
