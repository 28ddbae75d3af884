package recommend

import (
	"fmt"
	"io"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/recommend"
)

// WriteJSON writes an advice for scripts.
func WriteJSON(w io.Writer, a Advice) error {
	return output.JSON(w, a)
}

// WriteYAML writes an advice for people, as a file that "partition-monitor try" takes: the
// reasoning is in comments.
func WriteYAML(w io.Writer, a Advice) error {
	comments := comments{w}
	c := a.History
	if c.Samples > 0 {
		with := "without pods"
		if c.Members {
			with = "with pods"
		}
		comments.line("", "History: %s to %s, %s without gaps, %d samples %s", output.Time(c.From), output.Time(c.To),
			(time.Duration(c.Seconds) * time.Second).Round(time.Minute), c.Samples, with)
		comments.density(c)
	}
	if a.MemoryLimit != nil {
		comments.figure(a.path()+"memoryLimit "+bytesize.Text(a.MemoryLimit.Bytes), a.MemoryLimit.Why)
		comments.figure(a.path()+"evictionHard "+bytesize.Text(a.EvictionHard.Bytes), a.EvictionHard.Why)
	}
	if a.WithGrowth != nil {
		comments.other(a.MemoryLimit, "with what leaks had added", a.WithGrowth)
		comments.other(a.MemoryLimit, "without what leaks had added", a.WithoutGrowth)
	}
	comments.reserved("kubeReserved", a.KubeReserved)
	comments.reserved("systemReserved", a.SystemReserved)
	if a.SystemReserved != nil {
		comments.line("", "In the kubelet's own configuration:")
		if a.KubeReserved != nil {
			comments.line("  ", "%s", flow("kubeReserved", a.KubeReserved))
		}
		comments.line("  ", "%s", flow("systemReserved", a.SystemReserved))
	}
	if len(a.Leaks) > 0 {
		comments.line("", "Leaks:")
	}
	for _, l := range a.Leaks {
		comments.line("  ", "%s: %s an hour, %s from %s to %s, above %s", l.Name, bytesize.Text(l.BytesPerHour),
			bytesize.Text(l.GrowthBytes), output.Time(l.From), output.Time(l.To), bytesize.Text(l.BaseBytes))
	}
	for _, s := range a.Simulations {
		comments.simulation(s)
	}
	for _, warning := range a.Warnings {
		comments.line("", "warning: %s", warning)
	}
	for _, reason := range a.NoSection {
		comments.line("", "no section: %s", reason)
	}
	if a.Section == nil {
		return nil
	}
	text, err := a.document()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// flow returns a reservation as a line of YAML.
func flow(name string, r *recommend.Reserved) string {
	memory := r.Memory
	if r.WithPartition != nil {
		memory = *r.WithPartition
	}
	return fmt.Sprintf("%s: {cpu: %dm, memory: %s}", name, r.MilliCPU, quantity(memory.Bytes))
}

// comments writes lines that YAML ignores.
type comments struct{ w io.Writer }

// line writes one line, whatever its arguments contain.
func (c comments) line(indent, format string, args ...any) {
	fmt.Fprintf(c.w, "# %s%s\n", indent, oneline.Terminal(fmt.Sprintf(format, args...)))
}

func (c comments) figure(name string, why []string) {
	c.line("", "%s:", name)
	for _, reason := range why {
		c.line("  ", "%s", reason)
	}
}

func (c comments) reserved(name string, r *recommend.Reserved) {
	if r == nil {
		return
	}
	c.figure(name+" memory "+bytesize.Text(r.Memory.Bytes), r.Memory.Why)
	if with := r.WithPartition; with != nil {
		c.figure(name+" memory "+bytesize.Text(with.Bytes)+" with the partition", with.Why)
	}
	c.figure(fmt.Sprintf("%s cpu %dm", name, r.MilliCPU), []string{r.WhyCPU})
}

// other writes a limit that is not the recommended one.
func (c comments) other(limit *recommend.Figure, what string, f *recommend.Figure) {
	if f.Bytes != limit.Bytes {
		c.figure(what+", memoryLimit is "+bytesize.Text(f.Bytes), f.Why)
	}
}

// density writes how many pods the figures were measured with.
func (c comments) density(h recommend.Covered) {
	if h.Pods == 0 {
		return
	}
	most := ""
	if h.MaxPods > 0 {
		most = fmt.Sprintf("; maxPods is %d", h.MaxPods)
	}
	c.line("", "Pods on the node: at most %d%s", h.Pods, most)
}

// shownEvictions is the number of evictions of a simulation that are shown.
const shownEvictions = 20

func (c comments) simulation(s recommend.Simulation) {
	at := fmt.Sprintf("At %s, with a threshold of %s, ", bytesize.Text(s.LimitBytes), bytesize.Text(s.HardBytes))
	if len(s.Evictions) == 0 {
		c.line("", "%sno pod would have been evicted in this history.", at)
		return
	}
	c.line("", "%sthese pods would have been evicted:", at)
	for i, e := range s.Evictions {
		if i == shownEvictions {
			c.line("  ", "and %d more", len(s.Evictions)-i)
			return
		}
		what := fmt.Sprintf("%s, %s of the %s in use", e.Name, bytesize.Text(e.PodBytes), bytesize.Text(e.UsedBytes))
		switch {
		case e.NoCandidate:
			what = fmt.Sprintf("no pod: all are protected, and the kernel would have killed; %s in use", bytesize.Text(e.UsedBytes))
		case e.UID == "":
			what = fmt.Sprintf("a pod that the history does not name; %s in use", bytesize.Text(e.UsedBytes))
		case e.Leak:
			what += ", it leaks"
		}
		c.line("  ", "%s  %s", output.Time(e.Time), what)
	}
}
