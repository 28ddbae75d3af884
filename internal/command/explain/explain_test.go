package explain

import (
	"bytes"
	"strings"
	"testing"
)

// TestReason: of a reason of status its row is shown, and nothing has another name.
func TestReason(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := Write(&text, "restart-policy"); err != nil || !Known("restart-policy") ||
		!strings.HasPrefix(text.String(), "- `restart-policy`\n    the kubelet would not start a container again") || strings.Count(text.String(), "\n- ") > 0 {
		t.Errorf("%v\n%s", err, &text)
	}
	for _, name := range []string{"", "nrx", "reason", "no such pod is on this node"} {
		if Known(name) {
			t.Errorf("%q is known", name)
		}
	}
}

// TestPages: each page is text that a terminal of 80 columns shows, without links and tables. Words
// and code are not broken.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		var page bytes.Buffer
		if err := Write(&page, name); err != nil || !strings.HasPrefix(page.String(), "# ") {
			t.Errorf("%s: %v\n%s", name, err, &page)
		}
		for line := range strings.Lines(page.String()) {
			if strings.HasPrefix(line, "    ") {
				continue // code, or what to do
			}
			if len(line) > 81 && strings.Contains(strings.TrimSpace(line), " ") || strings.HasPrefix(line, "|") || strings.Contains(line, "](") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
