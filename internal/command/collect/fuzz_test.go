package collect

import (
	"strings"
	"testing"
)

// FuzzJournal: each record becomes one line, and no secret that text recognises gets through.
func FuzzJournal(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1700000000000000","MESSAGE":"a\nb","PRIORITY":"6","SYSLOG_IDENTIFIER":"kubelet"}`)
	f.Add("-- No entries --\n{}\nnull")
	f.Add(`{"__REALTIME_TIMESTAMP":"99999999999999999999","MESSAGE":[1,2]}`)
	f.Fuzz(func(t *testing.T, out string) {
		records, lines := strings.Count(out, "\n")+1, journal(out, ours)
		if got := strings.Count(lines, "\n"); got > records {
			t.Errorf("%d lines of %d records: %q", got, records, lines)
		}
	})
}
