package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/slices/config"
)

// connectionFile exists while the service is connected to the runtime over NRI. A service that is
// killed leaves it. The next start removes it, if it comes that far.
const connectionFile = config.StateDir + "/monitor/nri.json"

// connection is the content of connectionFile. No two connections have the same.
type connection struct {
	Since time.Time `json:"since"`
	PID   int       `json:"pid"`
}

// RecordNRIConnection records for the pre-launched plugin whether the service is connected to the
// runtime over NRI.
func RecordNRIConnection(n host.Node, up bool) error {
	return recordConnection(n.Path(connectionFile), up)
}

func recordConnection(path string, up bool) error {
	var err error
	if up {
		err = host.WriteState(path, connection{time.Now().UTC(), os.Getpid()}, 0o600)
	} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state of the monitor: %w", err)
	}
	return nil
}

// NRIConnection identifies the present connection of the service to the runtime. It is empty if
// there is none, or if the service that has recorded it has ended.
func NRIConnection(n host.Node) string { return readConnection(n.Path(connectionFile)) }

func readConnection(path string) string {
	var c connection
	if err := host.ReadState(path, &c); err != nil {
		return ""
	}
	if err := unix.Kill(c.PID, 0); errors.Is(err, unix.ESRCH) {
		return "" // of a service that was killed
	}
	return c.Since.Format(time.RFC3339Nano) + " " + strconv.Itoa(c.PID)
}
