package check

import (
	"bytes"
	"testing"

	"node-partition.io/node-partition/internal/state"
)

// TestWriteText: errors come first, what several checks say is said once, and a line counts all.
func TestWriteText(t *testing.T) {
	t.Parallel()
	found := []state.Finding{
		{Check: "trial", Grade: state.OK, Found: "none"},
		{Check: "runtime", Grade: state.Warning, Found: "not asked", Docs: "/a"},
		{Check: "nri", Grade: state.Warning, Found: "not asked", Docs: "/b"},
		{Check: "nri", Grade: state.Warning, Found: "not asked", Docs: "/b"},
		{Check: "slice", Grade: state.Error, Found: "gone", Change: "reload", Docs: "/c"},
		{Check: "swap", Grade: state.Ignored, Found: "on", Docs: "/d"},
		{Check: "floor", Grade: state.OK, Found: "none"},
		{Check: "events", Grade: state.Warning, Found: "not asked", Change: "ask", Docs: "/e"},
	}
	var text bytes.Buffer
	if err := WriteText(&text, found); err != nil {
		t.Fatal(err)
	}
	const want = `error   slice: gone
        change: reload
        see: /c
warning runtime, nri: not asked
warning events: not asked
        change: ask
        see: /e
ignored swap: on
        see: /d
ok      trial, floor: none
1 error, 4 warnings, 1 ignored, 2 ok
`
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", &text, want)
	}
	if found[0].Check != "trial" || found[1].Check != "runtime" {
		t.Errorf("the findings themselves have changed: %+v", found)
	}
}
