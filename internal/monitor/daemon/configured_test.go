package daemon

import (
	"errors"
	"reflect"
	"testing"

	"nodepartition/internal/monitor/metrics"
	"nodepartition/internal/monitor/node"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/slices/config"
	"nodepartition/pkg/slices/decision"
)

func TestConfigurationMetrics(t *testing.T) {
	t.Parallel()
	limited := &node.Thresholds{Limit: 512 << 20}
	for name, test := range map[string]struct {
		from node.Configuration
		want metrics.Configuration
	}{
		"good": {
			node.Configuration{Thresholds: limited, Desired: &node.Desired{Config: &config.Config{}}},
			metrics.Configuration{MemoryLimit: 512 << 20},
		},
		"refused, and the last good limit is followed": {
			node.Configuration{Thresholds: limited, Desired: &node.Desired{Config: &config.Config{}}, Problem: errors.New("memoryLimit: lots")},
			metrics.Configuration{MemoryLimit: 512 << 20, Problems: []metrics.Problem{metrics.Refused}},
		},
		"edited, in the kubelet's file, and below the usage": {
			node.Configuration{Thresholds: limited, NotApplied: true, Desired: &node.Desired{Config: &config.Config{KubeletsFile: "move it"}}, Deferral: &decision.Deferral{}},
			metrics.Configuration{MemoryLimit: 512 << 20, Problems: []metrics.Problem{metrics.NotApplied, metrics.KubeletsFile, metrics.Lowering}},
		},
		"switched off": {
			node.Configuration{Config: podmove.Config{Off: true}, Thresholds: limited, Desired: &node.Desired{Config: &config.Config{}}},
			metrics.Configuration{},
		},
	} {
		if got := configurationMetrics(test.from); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
