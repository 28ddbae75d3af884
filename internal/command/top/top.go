// Package top shows the partitions of the node on a terminal, now and in the past, and in lines
// where there is no terminal. It changes nothing.
package top

import (
	"context"
	"time"

	"nodepartition/internal/command/status"
	"nodepartition/internal/samples"
)

// Source reads what is shown.
type Source struct {
	// Status reads the present state of the node, and is called again after each Interval.
	Status   func(context.Context) (status.Status, error)
	Interval time.Duration
	// History reads what the service has recorded.
	History func(context.Context) (samples.History, error)
}
