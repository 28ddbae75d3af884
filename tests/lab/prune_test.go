package lab

import (
	"os"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	c := Cache{Dir: t.TempDir()}
	old := time.Now().Add(-2 * unusedAge)
	for _, tc := range []struct {
		name, key string
		kept      bool
	}{{"a", "old", false}, {"a", "new", true}, {"a", "used", true}, {"a", "half.partial", true}, {"b", "old", true}} {
		path := c.Path("images", tc.name, Key(tc.key))
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if tc.key != "new" {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			if exists(path) != tc.kept {
				t.Errorf("%s is there: %v", path, !tc.kept)
			}
		}()
	}
	if err := used(c.Path("images", "a", "used")); err != nil {
		t.Fatal(err)
	}
	if err := c.prune("images", "a"); err != nil {
		t.Fatal(err)
	}
}
