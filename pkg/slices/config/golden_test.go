package config_test

import (
	"io"
	"testing"

	"nodepartition/internal/generator"
	"nodepartition/tests/generator/golden"
)

// TestGolden runs the cases of tests/generator here too: they are what holds this package to its rules, so that a change is
// judged, and a mutant killed, by the tests of the package alone.
func TestGolden(t *testing.T) {
	const dir = "../../../tests/generator"
	cases, err := golden.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Check(t, dir, func(root, dir string, messages io.Writer) int {
				return generator.Run(root, dir, generator.NewLog(messages))
			})
		})
	}
}
