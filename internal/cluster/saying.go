package cluster

import (
	"errors"
	"log/slog"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
)

// sayAgain is the time after which a failure of the same kind is logged again.
const sayAgain = time.Hour

// Saying holds when a failure of a kind was logged. One goroutine at a time may use it.
type Saying struct{ at map[error]time.Time }

// Warn logs what an error means, unless it has done so for an error of that kind within sayAgain.
// It never does for kubeapi.ErrNoClient: a node needs no cluster, and the log has it already.
func (s *Saying) Warn(log *slog.Logger, err error, what string, args ...any) {
	if errors.Is(err, kubeapi.ErrNoClient) {
		return
	}
	var kind error
	for _, known := range []error{kubeapi.ErrForbidden, kubeapi.ErrCredentials, kubeapi.ErrUnreachable, kubeapi.ErrGone} {
		if errors.Is(err, known) {
			kind = known
			break
		}
	}
	if at, ok := s.at[kind]; ok && time.Since(at) < sayAgain {
		return
	}
	if s.at == nil {
		s.at = map[error]time.Time{}
	}
	s.at[kind] = time.Now()
	log.Warn(what, append(args, "error", err)...)
}
