package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// qmp speaks qemu's machine protocol (docs/interop/qmp-spec.rst of qemu) over qemu's standard input
// and output: a command, and its answer among events. Five commands are sent in the life of a
// snapshot. The Go libraries for the protocol connect to sockets, whose paths may have only 107
// bytes.
type qmp struct {
	to   io.Writer
	from *json.Decoder
}

// qmpCommand is one command.
type qmpCommand struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

func newQMP(to io.Writer, from io.Reader) *qmp { return &qmp{to: to, from: json.NewDecoder(from)} }

// run sends a command and returns its answer. It waits for the answer until qemu ends.
func (q *qmp) run(ctx context.Context, c qmpCommand) (json.RawMessage, error) {
	if q == nil {
		return nil, errors.New(c.Execute + ": the machine was started without a control channel")
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := json.NewEncoder(q.to).Encode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Execute, err)
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Class string `json:"class"`
				Desc  string `json:"desc"`
			} `json:"error"`
		}
		if err := q.from.Decode(&answer); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Execute, err)
		}
		switch {
		case answer.Error != nil:
			return nil, fmt.Errorf("%s: %s: %s", c.Execute, answer.Error.Class, answer.Error.Desc)
		case answer.Return != nil:
			return answer.Return, nil
		}
		// A greeting or an event.
	}
}
