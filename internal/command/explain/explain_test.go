package explain

import (
	"bytes"
	"strings"
	"testing"
)

// TestPage: a reason of status leads to its page, and a name that nothing has to none.
func TestPage(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"swap": "swap", "restart-policy": "placement", "pending": "placement"} {
		if page, ok := Page(name); !ok || page != want {
			t.Errorf("%s: %s, %t; want %s", name, page, ok, want)
		}
	}
	for _, name := range []string{"", "nrx", "reason", "no such pod is on this node"} {
		if page, ok := Page(name); ok {
			t.Errorf("%q: %s", name, page)
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
