package config

import (
	"errors"
	"testing"
)

// TestProblemsAreJoined: callers print one line for each problem.
func TestProblemsAreJoined(t *testing.T) {
	var list problems
	list.add("/a", "x", `"1"`, "is %s", "wrong")
	list.add("/b", "", "", "is missing")
	err := list.err()
	var p *problem
	if !errors.As(err, &p) || err.Error() != "/a: x: \"1\": is wrong\n/b: is missing" {
		t.Errorf("got %v", err)
	}
	if (problems)(nil).err() != nil {
		t.Error("no problem is an error")
	}
}
