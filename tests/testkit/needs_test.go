package testkit

import (
	"runtime"
	"strings"
	"testing"
)

// ended is a test that another test starts and observes.
type ended struct {
	testing.TB
	failed, skipped string
}

func (e *ended) Helper() {}

func (e *ended) Fatalf(format string, _ ...any) {
	e.failed = format
	runtime.Goexit()
}

func (e *ended) Skipf(format string, _ ...any) {
	e.skipped = format
	runtime.Goexit()
}

func TestProgram(t *testing.T) {
	for name, test := range map[string]struct {
		program, ci     string
		failed, skipped bool
	}{
		"is there":                {"sh", "true", false, false},
		"is missing":              {"no-such-program", "", false, true},
		"is missing where all is": {"no-such-program", "true", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", test.ci)
			e := &ended{TB: t}
			done := make(chan string, 1)
			go func() {
				defer close(done)
				done <- NeedProgram(e, test.program, "a-package")
			}()
			path, returned := <-done
			if (e.failed != "") != test.failed || (e.skipped != "") != test.skipped || returned == (test.failed || test.skipped) {
				t.Errorf("failed %q, skipped %q, returned %v", e.failed, e.skipped, returned)
			}
			if returned && !strings.HasSuffix(path, "/sh") {
				t.Errorf("path %q", path)
			}
		})
	}
}
