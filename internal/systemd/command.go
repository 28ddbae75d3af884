package systemd

import (
	"context"
	"fmt"

	sd "github.com/coreos/go-systemd/v22/dbus"
)

// Command is the command line of a service, from all its files. systemd has replaced specifiers,
// and not variables.
type Command struct {
	// Args is the last ExecStart=, with the name of the program.
	Args []string
	// Environment has the assignments of Environment=, and Files the paths of EnvironmentFile=.
	Environment, Files []string
}

// isIdle reports whether no unit starts another one, such as the service of a kubelet that another
// program has replaced.
func isIdle(ctx context.Context, conn *connection, unit string) (bool, error) {
	var state string
	if err := unitProperty(ctx, conn, unit, "UnitFileState", &state); err != nil || state != "disabled" {
		return false, err
	}
	for _, name := range []string{"WantedBy", "RequiredBy", "TriggeredBy"} {
		var units []string
		if err := unitProperty(ctx, conn, unit, name, &units); err != nil || len(units) > 0 {
			return false, err
		}
	}
	return true, nil
}

// unitProperty reads a property that each unit has.
func unitProperty(ctx context.Context, conn *connection, unit, name string, value any) error {
	p, err := conn.api.GetUnitPropertyContext(ctx, unit, name)
	return stored(p, err, value)
}

func stored(p *sd.Property, err error, value any) error {
	if err != nil {
		return err
	}
	if err := p.Value.Store(value); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Command returns the command line of a service. It is empty if the service does not exist, or if
// it is disabled and no other unit starts it.
func (c *Client) Command(ctx context.Context, service string) (command Command, err error) {
	err = c.do(ctx, func(ctx context.Context, conn *connection) error {
		var starts []struct {
			Path          string
			Args          []string
			IgnoreFailure bool
			// When it was started and has ended, by two clocks, and how: not needed.
			Started, StartedMonotonic, Ended, EndedMonotonic uint64
			PID                                              uint32
			Code, Status                                     int32
		}
		var files []struct {
			Path          string
			IgnoreMissing bool
		}
		for name, value := range map[string]any{
			"ExecStart": &starts, "Environment": &command.Environment, "EnvironmentFiles": &files,
		} {
			p, err := conn.api.GetUnitTypePropertyContext(ctx, service, "Service", name)
			if err := stored(p, err, value); err != nil {
				return err
			}
		}
		if idle, err := isIdle(ctx, conn, service); err != nil || idle {
			command = Command{}
			return err
		}
		if len(starts) > 0 {
			command.Args = starts[len(starts)-1].Args
		}
		for _, file := range files {
			command.Files = append(command.Files, file.Path)
		}
		return nil
	})
	return command, named("reading the command line of", service, err)
}
