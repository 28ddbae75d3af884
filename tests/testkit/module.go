package testkit

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
)

// NeedModule returns the folder with the source of a Go module, as path@version. dir is the folder
// whose go.mod has the checksum, or none: the checksum database has it, too.
func NeedModule(tb testing.TB, dir, module string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	output, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			output = append(output, exit.Stderr...)
		}
		tb.Fatalf("%s: %v: %s; the module proxy has to be reachable once", cmd, err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		tb.Fatal(err)
	}
	return downloaded.Dir
}
