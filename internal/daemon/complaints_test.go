package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestComplaints: an error is logged once. Texts that are new each time do not fill the memory:
// after a hundred of them the first one may be logged again.
func TestComplaints(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := &monitor{shared: shared{log: slog.New(slog.NewTextHandler(&log, nil))}}
	complain := m.complaints("no connection")
	for range 3 {
		complain(errors.New("refused"))
	}
	if n := strings.Count(log.String(), "error=refused"); n != 1 {
		t.Errorf("logged %d times; want once", n)
	}
	for i := range 200 {
		complain(fmt.Errorf("port %d", i))
	}
	complain(errors.New("refused"))
	if n := strings.Count(log.String(), "error=refused"); n != 2 {
		t.Errorf("after 200 others it was logged %d times; want that it was forgotten", n)
	}
}
