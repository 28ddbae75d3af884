package main

import (
	"context"
	"log/slog"
	"os"

	"node-partition.io/node-partition/internal/daemon"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/journallog"
)

// runPrelaunched runs the plugin that the container runtime has started by a link to this program
// in /opt/nri/plugins. The runtime gives it no arguments, and discards its output.
func runPrelaunched(ctx context.Context, n host.Node) int {
	// Containers wait for us, and we do not wait for journald.
	log := journallog.NewQueue(journallog.NewJournal(os.Stderr, slog.LevelInfo).Handler())
	defer log.Close()
	if err := daemon.RunPrelaunched(ctx, n, slog.New(log)); err != nil {
		return exitProblem // Run has logged it
	}
	return exitOK
}
