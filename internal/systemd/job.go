package systemd

import (
	"context"
	"fmt"
)

// jobError is the result of a job that did not succeed: canceled, timeout, failed, dependency,
// skipped.
type jobError string

func (e jobError) Error() string { return fmt.Sprintf("systemd's job ended with %q", string(e)) }

// job queues a job and waits until systemd reports that it is over. The job may have been merged
// into another one, or replaced, so callers check the outcome themselves.
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
		// systemd may send the end of a job before it has its subscribers again, and then the signal is
		// lost (seen with 257.13: a tenth of the jobs that ran into a daemon-reexec).
		return errLost
	case <-c.ctx.Done():
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
