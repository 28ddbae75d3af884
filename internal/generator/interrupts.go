package generator

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/interrupts"
	"nodepartition/internal/systemctl"
	"nodepartition/pkg/slices"
	"nodepartition/pkg/slices/config"
)

// Interrupts keeps interrupts of devices off CPUs of the node at root, or puts back what it has
// changed if there are none to keep off: the default affinity, and what irqbalance leaves out.
// Without a systemd it restarts no irqbalance. It returns 0, and 1 if something could not be done,
// which it logs.
func Interrupts(ctx context.Context, root string, systemd *systemctl.Programs, keep cpuset.CPUSet, log *Log) int {
	online := cpuset.New()
	if !keep.IsEmpty() {
		var err error
		if online, err = config.OnlineCPUs(hostfs.FS(root)); err != nil {
			log.Errorf("%v", err)
			return 1
		}
	}
	status := 0
	note, err := interrupts.SetDefault(root, keep, online)
	if note != "" {
		log.all(levelWarning, []string{note})
	}
	if err != nil {
		log.Errorf("%v", err)
		status = 1
	}
	if err := restartIrqbalance(ctx, root, systemd, keep, online); err != nil {
		log.Errorf("%s goes on with the CPUs that it had left out: %v", interrupts.Service, err)
		status = 1
	}
	return status
}

// restartIrqbalance restarts an irqbalance that runs if it leaves out other CPUs than it should.
// Its start has Ban write what it reads, so a run that is killed here has changed nothing, and the
// next one begins again.
func restartIrqbalance(
	ctx context.Context, root string, systemd *systemctl.Programs, keep, online cpuset.CPUSet,
) error {
	bans, err := interrupts.ReadBans(hostfs.FS(root))
	if err != nil {
		return err
	}
	on := !keep.IsEmpty()
	if on && bans != nil && bans.Suit(keep, online) || !on && bans == nil {
		return nil
	}
	if systemd != nil && (on || bans.Change()) {
		reads, runs, err := irqbalance(ctx, systemd)
		if err != nil {
			return err
		}
		// One that does not read the file would be restarted for nothing, at each reload.
		//guard: an irqbalance that does not read the list is not restarted for it
		if runs && (reads || !on) {
			if _, err := systemd.Run(ctx, "systemctl", "try-restart", interrupts.Service); err != nil {
				return err
			}
		}
	}
	if !on {
		return interrupts.RemoveBans(root)
	}
	return nil
}

// irqbalance reports whether systemd gives irqbalance the file that Ban writes, and whether it
// runs.
func irqbalance(ctx context.Context, systemd *systemctl.Programs) (reads, runs bool, err error) {
	units, err := systemd.Show(ctx, "ActiveState,DropInPaths", interrupts.Service)
	if err != nil {
		return false, false, err
	}
	for _, unit := range units {
		reads = strings.Contains(unit["DropInPaths"], "/"+slices.BansDropin)
		switch unit["ActiveState"] {
		case "active", "activating", "reloading", "refreshing":
			runs = true
		}
	}
	return reads, runs, nil
}

// Ban writes the CPUs that irqbalance leaves out to the file that systemd adds to its environment:
// those that it leaves out by itself, and those to keep interrupts off. It runs before each start
// of irqbalance, in the same environment without that file. So it knows what an operator, or CRI-O,
// has written since the start before.
func Ban(root string, env func(string) string, keep cpuset.CPUSet, log *Log) int {
	node := hostfs.FS(root)
	online, err := config.OnlineCPUs(node)
	var bans interrupts.Bans
	if err == nil {
		bans, err = interrupts.NewBans(node, env, keep, online)
	}
	if err == nil {
		err = bans.Write(root)
	}
	if err != nil {
		log.Errorf("irqbalance is not kept off the CPUs %s: %v", keep, err)
		return 1
	}
	if !keep.IsSubsetOf(bans.CPUs) {
		log.all(levelWarning, []string{fmt.Sprintf("irqbalance is not kept off the CPUs %s: it leaves out %s by itself, and no online "+
			"CPU would be left; want a shorter list in its environment, or another cpuset", keep, bans.Without)})
	}
	return 0
}
