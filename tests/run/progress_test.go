package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"gotest.tools/gotestsum/testjson"
)

func TestTell(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, bySubtest, make([]test, 3), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	event := func(second, action, name string) string {
		return `{"Time":"2026-01-01T00:00:` + second + `Z","Action":"` + action + `","Package":"node-partition.io/node-partition/tests/e2e","Test":"` + name + `"}` + "\n"
	}
	tell := func(stream string) string {
		out.Reset()
		for line := range strings.Lines(stream) {
			scan := testjson.ScanConfig{Stdout: strings.NewReader(line), Handler: unended{p}}
			if _, err := testjson.ScanTestOutput(scan); err != nil {
				t.Fatal(err)
			}
		}
		out.Reset()
		p.tell(time.Date(2026, 1, 1, 0, 1, 30, 0, time.UTC))
		return out.String()
	}
	for _, step := range []struct{ stream, want string }{
		{"", "running no test, go builds; 0 of 3, 1m30s so far\n"},
		{event("01", "run", "TestA") + event("02", "run", "TestA/trixie"), "running tests/e2e TestA/trixie 1m28s; 0 of 3, 1m30s so far\n"},
		{event("05", "run", "TestB"), "running tests/e2e TestA/trixie 1m28s, tests/e2e TestB 1m25s; 0 of 3, 1m30s so far\n"},
		{event("10", "pause", "TestB"), "running tests/e2e TestA/trixie 1m28s; 0 of 3, 1m30s so far\n"},
		{event("20", "cont", "TestB"), "running tests/e2e TestA/trixie 1m28s, tests/e2e TestB 1m10s; 0 of 3, 1m30s so far\n"},
		{event("30", "pass", "TestA/trixie") + event("30", "pass", "TestA"), "running tests/e2e TestB 1m10s; 1 of 3, 1m30s so far\n"},
	} {
		if got := tell(step.stream); got != step.want {
			t.Errorf("got %swant %s", got, step.want)
		}
	}
}

// unended hides from progress that a stream has ended in the middle of its tests.
type unended struct{ *progress }

func (u unended) Event(e testjson.TestEvent, execution *testjson.Execution) error {
	if len(e.Bytes()) == 0 {
		return nil
	}
	return u.progress.Event(e, execution)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-count=1", "-want", "trixie,crio", "-timeout", "1h", "-lines", "subtest", "./a", "./b"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.goTest, " "); got != "-count=1 -timeout=1h" || len(o.want) != 2 || len(o.packages) != 2 || o.lines != bySubtest {
		t.Errorf("%+v", o)
	}
	for _, args := range [][]string{{}, {"-lines", "none", "./a"}, {"-unknown", "./a"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
