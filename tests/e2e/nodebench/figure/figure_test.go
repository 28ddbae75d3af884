package figure

import (
	"testing"
	"time"
)

func TestRatio(t *testing.T) {
	rounds := []Round{
		{A: []time.Duration{11, 10}, B: []time.Duration{10, 10}},
		{A: []time.Duration{12, 33}, B: []time.Duration{10, 30}},
		{A: []time.Duration{22}, B: []time.Duration{20}},
	}
	f := Ratio("with over without", new(1.05), rounds)
	if f.Value != 1.1 {
		t.Errorf("the median is %v, want 1.1", f.Value)
	}
	if f.Low > f.Value || f.High < f.Value || f.Low < 1 || f.High > 1.2 {
		t.Errorf("it is between %v and %v", f.Low, f.High)
	}
	if !f.Missed() {
		t.Error("1.1 is not above 1.05")
	}
	if again := Ratio("with over without", new(1.05), rounds); again.Low != f.Low || again.High != f.High {
		t.Error("the same times give other bounds")
	}
}

func TestLimits(t *testing.T) {
	for what, f := range map[string]Figure{"none": {Value: 7}, "reached": {Value: 2, Limit: new(2.0)}, "zero of zero": {Limit: new(0.0)}} {
		if f.Missed() {
			t.Errorf("%s: is missed", what)
		}
	}
	if !(Figure{Value: 1, Limit: new(0.0)}).Missed() {
		t.Error("one is not above zero")
	}
}
