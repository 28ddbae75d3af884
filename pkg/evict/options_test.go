package evict

import (
	"strings"
	"testing"
)

// TestNewMissing: a missing option is an error at the start, which names it, and not a nil call in
// the middle of an eviction.
func TestNewMissing(t *testing.T) {
	bubble(t, func(n *node) {
		for missing, change := range map[string]func(*Options){
			"Partition":  func(o *Options) { o.Partition = "" },
			"Cgroups":    func(o *Options) { o.Cgroups = "" },
			"Pods":       func(o *Options) { o.Pods = nil },
			"Known":      func(o *Options) { o.Known = nil },
			"Refresh":    func(o *Options) { o.Refresh = nil },
			"Scopes":     func(o *Options) { o.Scopes = nil },
			"Rest":       func(o *Options) { o.Rest = nil },
			"Kill":       func(o *Options) { o.Kill = nil },
			"Runtime":    func(o *Options) { o.Runtime = nil },
			"Mark":       func(o *Options) { o.Mark = nil },
			"API":        func(o *Options) { o.API = nil },
			"LowerLimit": func(o *Options) { o.LowerLimit = nil },
			"Store":      func(o *Options) { o.Store = "" },
			"Events":     func(o *Options) { o.Events = nil },
		} {
			o := n.options()
			change(&o)
			if m, err := New(o); m != nil || err == nil || !strings.Contains(err.Error(), missing) {
				n.t.Errorf("without %s: %v", missing, err)
			}
		}
		o := n.options()
		o.Burst = 0
		if _, err := New(o); err != nil {
			n.t.Errorf("without what is not required: %v", err)
		}
		o.Partition = "default"
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), `"default"`) {
			n.t.Errorf("of the default partition: %v", err)
		}
	})
}
