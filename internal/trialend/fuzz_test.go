package trialend

import (
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/testkit"
)

// FuzzOf: a trial whose end is known ends at that moment, and in every other boot.
func FuzzOf(f *testing.F) {
	f.Add(`{"from":"/etc/kubernetes/section.yaml","end":{"boot":"b","since":600000000000}}`)
	f.Add(`{"end":{"boot":"b","since":-9223372036854775808}}`)
	f.Add(`{"end":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		root := t.TempDir()
		testkit.WriteFiles(t, root, map[string]string{kubeletconfig.TrialPath: "", AboutFile: text})
		end, from, ok := Of(root)
		switch {
		case !ok && (end != Moment{} || from != ""):
			t.Errorf("%+v, %q of an end that is not known", end, from)
		case ok && (!end.Over(end) || !end.Over(Moment{Boot: end.Boot + "2"})):
			t.Errorf("%+v does not end", end)
		case ok && end.Since > 0 && end.Over(Moment{Boot: end.Boot, Since: end.Since - 1}):
			t.Errorf("%+v ends too early", end)
		}
	})
}
