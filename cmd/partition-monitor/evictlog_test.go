package main

import (
	"os"
	"strings"
	"testing"
)

// What an operator can search the journal for is explained in the catalog.
func TestCatalog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../units/node-partition.catalog")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{idEvicting, idEvicted, idFailed, idNobody, idKernelKilled}
	for _, id := range ids {
		if strings.Count(string(text), "\n-- "+id+"\n") != 1 {
			t.Errorf("%s is not explained, or twice", id)
		}
	}
	if entries := strings.Count(string(text), "\n-- "); entries != len(ids) {
		t.Errorf("%d entries, want %d", entries, len(ids))
	}
}
