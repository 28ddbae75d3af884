package lab

import (
	"testing"
)

func TestDeadControlPlanesGo(t *testing.T) {
	c := cache{Dir: t.TempDir()}
	dead, unlock, err := c.newControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	alive, unlock, err := c.newControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := c.removeDeadControlPlanes(); err != nil {
		t.Fatal(err)
	}
	if exists(dead) || !exists(alive) {
		t.Errorf("dead one there: %v, living one there: %v", exists(dead), exists(alive))
	}
}
