//go:build mutants

package slices_test

import (
	"io"
	"testing"

	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/generator/golden"
)

// TestGolden runs the cases of tests/generator, which hold the package to its rules. tests/mutants
// runs the tests of one package, and sets the build tag.
func TestGolden(t *testing.T) {
	golden.CheckAll(t, "../../tests/generator", func(root, dir string, messages io.Writer) int {
		return generator.Run(root, dir, trialend.Moment{}, generator.NewLog(messages))
	})
}
