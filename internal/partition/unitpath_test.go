package partition

import "testing"

func TestPlain(t *testing.T) {
	for name, want := range map[string]string{
		"/etc/a.conf": "/etc/a.conf", "/etc/%n": "/etc", "/a b/c/d": "/", "/a/b\nc/d": "/a", "": "/", "relative": "/relative",
	} {
		if got := PlainPath(name); got != want {
			t.Errorf("Plain(%q) is %q, want %q", name, got, want)
		}
	}
}
