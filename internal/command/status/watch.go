package status

import (
	"context"
	"fmt"
	"io"
	"time"

	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/state"
)

// interval is the time between two readings of Watch.
const interval = 2 * time.Second

// Watch writes what read returns, and again every two seconds, until reading or writing fails. On a
// terminal each status replaces the one before.
func Watch(
	ctx context.Context, w io.Writer,
	read func(context.Context) (state.Status, error), write func(io.Writer, state.Status) error,
) error {
	for tick := time.NewTicker(interval); ; <-tick.C {
		status, err := read(ctx)
		if err != nil {
			return err
		}
		if err := output.Redraw(w, func(w io.Writer) error { return write(w, status) }); err != nil {
			return err
		}
	}
}

// Watched returns what writes a status that is one of many: with the time at which it was read.
func Watched(write func(io.Writer, state.Status) error) func(io.Writer, state.Status) error {
	return func(w io.Writer, status state.Status) error {
		if _, err := fmt.Fprintf(w, "Time          %s\n", status.Time.Local().Format(time.DateTime)); err != nil {
			return err
		}
		if err := write(w, status); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w)
		return err
	}
}
