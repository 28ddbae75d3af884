package systemd

import (
	"context"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// listen makes the bus deliver systemd's signals, and systemd send them at all.
func listen(ctx context.Context, conn *connection) error {
	err := conn.signals.AddMatchSignalContext(
		ctx,
		dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, busName),
	)
	for _, member := range []string{"UnitNew", "UnitRemoved", "Reloading"} {
		if err != nil {
			return err
		}
		err = conn.signals.AddMatchSignalContext(ctx, dbus.WithMatchSender(busName), dbus.WithMatchInterface(manager),
			dbus.WithMatchMember(member), dbus.WithMatchObjectPath(objectPath))
	}
	if err != nil {
		return err
	}
	var owner string
	if err := conn.signals.BusObject().
		CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, busName).
		Store(&owner); err != nil {
		return err
	}
	conn.filter.firstOwner(owner)
	return subscribe(ctx, conn)
}

// subscribe makes systemd send signals. systemd remembers subscribers by their names on the bus,
// and only until it leaves the bus itself.
func subscribe(ctx context.Context, conn *connection) error {
	err := conn.signals.Object(busName, objectPath).CallWithContext(ctx, manager+".Subscribe", 0).Err
	if isError(err, busName+".AlreadySubscribed") {
		return nil
	}
	return err
}

// signalFilter receives signals from godbus, one at a time and in order. It drops signals that do
// not come from systemd: a match rule keeps broadcasts away, but not a signal addressed to our
// unique name, which the policy of the system bus lets every user send. Only the signals that
// it lets through reach go-systemd.
type signalFilter struct {
	dbus.SignalHandler
	dbus.SignalRegistrar
	dbus.Terminator

	options  *Options
	newOwner chan struct{} // has one element once systemd has come back to the bus

	mu    sync.Mutex
	way   way
	owner string        // systemd's unique name, empty while it has none
	known bool          // whether owner was ever set
	next  chan struct{} // closed when the owner changes
}

func newSignalFilter(by way, o *Options) *signalFilter {
	// The default handler does not keep the order of signals.
	handler := dbus.NewSequentialSignalHandler()
	f := &signalFilter{
		SignalHandler: handler,
		options:       o,
		way:           by,
		newOwner:      make(chan struct{}, 1),
		next:          make(chan struct{}),
	}
	f.SignalRegistrar, _ = handler.(dbus.SignalRegistrar)
	f.Terminator, _ = handler.(dbus.Terminator)
	return f
}

// firstOwner stores the answer to GetNameOwner, unless a NameOwnerChanged has overtaken it.
func (f *signalFilter) firstOwner(owner string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		f.owner, f.known = owner, true
	}
}

// DeliverSignal handles a signal. godbus calls it between reading two messages, so it must not
// block.
func (f *signalFilter) DeliverSignal(iface, member string, s *dbus.Signal) {
	// The bus writes the sender, and no client can have the bus' own name.
	if f.way == onBus && s.Sender == "org.freedesktop.DBus" {
		f.busReported(iface, member, s)
		return
	}
	if iface != manager || s.Path != objectPath || !f.fromSystemd(s) {
		return
	}
	switch member {
	case "UnitNew", "UnitRemoved":
		if ofPods(bodyAt[string](s, 0)) {
			f.options.Wake()
		}
	case "Reloading":
		if len(s.Body) > 0 && !bodyAt[bool](s, 0) {
			f.options.OnReloaded()
		}
	case "JobRemoved":
		f.SignalHandler.DeliverSignal(iface, member, s)
	}
}

// nextOwner returns a channel that is closed when systemd leaves the bus or comes back to it.
func (f *signalFilter) nextOwner() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

func (f *signalFilter) fromSystemd(s *dbus.Signal) bool {
	if f.way == direct {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner != "" && s.Sender == f.owner
}

func (f *signalFilter) busReported(iface, member string, s *dbus.Signal) {
	if iface != "org.freedesktop.DBus" || member != "NameOwnerChanged" || bodyAt[string](s, 0) != busName {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner, f.known = bodyAt[string](s, 2), true
	close(f.next)
	f.next = make(chan struct{})
	if f.owner == "" {
		return
	}
	select {
	case f.newOwner <- struct{}{}:
	default:
	}
}

// bodyAt returns an argument of a signal, or the zero value if the signal has none of that type.
func bodyAt[T any](s *dbus.Signal, i int) T {
	if i >= len(s.Body) {
		var zero T
		return zero
	}
	value, _ := s.Body[i].(T)
	return value
}

// ofPods reports whether a unit may be a slice of pods or a scope of a container. Scopes of logind
// and of systemd-run, with which the kubelet mounts volumes, are none: a cron job each minute would
// cause four reconciles.
func ofPods(unit string) bool {
	if strings.HasSuffix(unit, ".slice") {
		return strings.HasPrefix(unit, "kubepods")
	}
	return strings.HasSuffix(unit, ".scope") && !strings.HasPrefix(unit, "session-") && !strings.HasPrefix(unit, "run-")
}
