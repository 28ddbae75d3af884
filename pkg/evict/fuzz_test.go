package evict

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzStore: a state file is either refused, with an error that names it, or read so that it is the
// same after it was written again. Its shortage leads to a state that a run could have come to
// itself.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"version":1,"open":[{"uid":"a","cgroup":"b"}],"cooldown":{"o":"2026-11-23T15:00:00Z"},"stays":{"a":1},"last":[{}]}`))
	f.Add([]byte("null"))
	f.Add([]byte(`{"version":1,"shortage":{"at":"2026-03-01T12:00:00Z","softSince":"2026-03-01T11:59:00Z","base":1,"podBase":{"a":1},"quietAt":"9999-12-31T00:00:00Z"}}`))
	f.Add([]byte(`{"version":1,"cooldown":{"":"9999-12-31T23:59:59+23:59"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "evictions.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Store(path).Read()
		if err != nil {
			if !reflect.DeepEqual(h, History{}) {
				t.Errorf("%+v with %v", h, err)
			}
			return
		}
		executions(h.Open)
		state, e := h.Shortage.restore(noon)
		for what, late := range map[string]bool{
			"softSince": state.SoftSince.After(noon), "killedAt": e.KilledAt.After(noon), "quietAt": e.QuietAt.After(noon),
			"dying": e.dying(noon.Add(endTimeout)),
		} {
			if late {
				t.Errorf("%s of %+v is too late", what, h.Shortage)
			}
		}
		if err := Store(path).write(h); err != nil {
			t.Fatalf("%+v cannot be written again: %v", h, err)
		}
		again, err := Store(path).Read()
		if err != nil {
			t.Errorf("%+v cannot be read again: %v", h, err)
		}
		for i, e := range again.Open {
			if e.UID != h.Open[i].UID || e.Cgroup != h.Open[i].Cgroup || e.Method != h.Open[i].Method || !e.Time.Equal(h.Open[i].Time) {
				t.Errorf("the eviction %+v has become %+v", h.Open[i], e)
			}
		}
		if !maps.Equal(again.Unreclaimable, h.Unreclaimable) || len(again.Last) != len(h.Last) || len(again.Cooldown) != len(h.Cooldown) {
			t.Errorf("%+v has become %+v", h, again)
		}
	})
}
