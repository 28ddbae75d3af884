package main

import (
	"context"
	"errors"
	"time"

	"nodepartition/internal/systemd"
)

// mover does what a pass has decided for one container.
type mover struct {
	runtime *runtimeClient
	units   *systemd.Client
}

func (m mover) Restart(ctx context.Context, id string, grace time.Duration) error {
	return m.runtime.stop(ctx, id, grace)
}

func (m mover) Live(context.Context, string, string, string, string, string) error {
	return errors.ErrUnsupported
}

// units is systemd as a pass needs it.
type units struct{ *systemd.Client }

func (u units) StopScope(ctx context.Context, name string) error { return u.StopUnit(ctx, name) }
