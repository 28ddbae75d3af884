package config

import (
	"errors"
	"testing"
)

// TestProblemsJoined: callers print one line for each problem.
func TestProblemsJoined(t *testing.T) {
	var list problems
	list.add("/a", "x", `"1"`, "is %s", "wrong")
	list.add("/b", "", "", "is missing")
	err := list.err()
	var p *Problem
	if !errors.As(err, &p) || err.Error() != "/a: x: \"1\": is wrong\n/b: is missing" {
		t.Errorf("got %v", err)
	}
	if (problems)(nil).err() != nil {
		t.Error("no problem is an error")
	}
}
