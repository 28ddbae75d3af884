package slices_test

import (
	"io"
	"testing"

	"nodepartition/internal/generator"
	"nodepartition/internal/trialend"
	"nodepartition/tests/generator/golden"
)

// TestGolden runs the cases of tests/generator in this package too. They hold the package to its
// rules, so its own tests alone judge a change and kill a mutant.
func TestGolden(t *testing.T) {
	golden.CheckAll(t, "../../tests/generator", func(root, dir string, messages io.Writer) int {
		return generator.Run(root, dir, trialend.Moment{}, generator.NewLog(messages))
	})
}
