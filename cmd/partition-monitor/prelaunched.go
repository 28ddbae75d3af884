package main

import (
	"context"
	"log/slog"
	"os"

	"nodepartition/internal/journallog"
	"nodepartition/internal/monitor/prelaunched"
)

// runPrelaunched runs the plugin that the container runtime has started by a link to this program
// in /opt/nri/plugins. The runtime gives it no arguments, and discards its output.
func runPrelaunched(ctx context.Context) int {
	if err := prelaunched.Run(ctx, journallog.NewJournal(os.Stderr, slog.LevelInfo)); err != nil {
		return exitProblem // Run has logged it
	}
	return exitOK
}
