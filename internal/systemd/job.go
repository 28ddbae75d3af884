package systemd

import (
	"context"
	"fmt"
)

// jobError is how a job ended that did not end well: canceled, timeout, failed, dependency, skipped.
type jobError string

func (e jobError) Error() string { return fmt.Sprintf("systemd's job ended with %q", string(e)) }

// job queues a job and waits until systemd says that it is over. Whoever needs to know what came of it looks: the job may
// have been merged into another one, or replaced.
func (c *connection) job(ctx context.Context, queue func(result chan<- string) error) error {
	result := make(chan string, 1) // go-systemd must never wait for us
	anew := c.filter.nextOwner()
	if err := queue(result); err != nil {
		return err
	}
	select {
	case r := <-result:
		if r != "done" {
			return jobError(r)
		}
		return nil
	case <-anew:
		// The word that the job is over is lost when systemd says it before it knows its subscribers again
		// (seen with 257.13: a tenth of the jobs that ran into a daemon-reexec).
		return errLost
	case <-c.ctx.Done():
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
