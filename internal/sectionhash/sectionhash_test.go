package sectionhash

import "testing"

// TestOf: sha256sum prints the same digits for the file.
func TestOf(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":      "e3b0c44298fc",
		"abc":   "ba7816bf8f01",
		"abc\n": "edeaaff3f177",
	} {
		if got := Of([]byte(content)); got != want {
			t.Errorf("%q: %s; want %s", content, got, want)
		}
	}
}
