package recommend

import (
	"fmt"
	"io"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
	"nodepartition/internal/recommend"
)

// WriteFleetJSON writes an advice for several nodes for scripts.
func WriteFleetJSON(w io.Writer, a FleetAdvice) error { return output.JSON(w, a) }

// WriteFleetYAML writes an advice for several nodes for people: a document for each shape, with the
// reasoning in comments.
func WriteFleetYAML(w io.Writer, a FleetAdvice) error {
	comments := comments{w}
	for _, warning := range a.Warnings {
		comments.line("", "warning: %s", warning)
	}
	for i := range a.Shapes {
		s := &a.Shapes[i]
		fmt.Fprintln(w, "---")
		comments.shape(a.path(), s.ForShape)
		if s.Section == nil {
			continue
		}
		comments.line("", "The recommended fields alone: copy the others from the nodes' own file.")
		text, err := a.document(*s)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// path is the field of the configuration below which the fields of a section are, with a dot.
func (a *FleetAdvice) path() string { return (&Advice{Partition: a.Partition}).path() }

// shape writes the figures of a shape.
func (c comments) shape(path string, s recommend.ForShape) {
	c.line("", "Shape %s: %d nodes", s.Shape, s.Nodes)
	if h := s.History; h.MostNodes > 0 {
		c.line("", "History: %s to %s, %s of the nodes together, %d at once at most: %s each",
			output.Time(h.From), output.Time(h.To), hours(h.NodeSeconds), h.MostNodes, hours(h.Seconds))
	}
	if s.MemoryLimit != nil {
		c.figure(path+"memoryLimit "+bytesize.Text(s.MemoryLimit.Bytes), s.MemoryLimit.Why)
		c.figure(path+"evictionHard "+bytesize.Text(s.EvictionHard.Bytes), s.EvictionHard.Why)
		c.line("", "A memoryLimit that does for a part of the nodes:")
		for _, share := range s.Shares {
			c.line("  ", "%d %% of them: %s", share.Percent, bytesize.Text(share.Bytes))
		}
	}
	if s.Reserved != nil {
		c.figure("kubeReserved and systemReserved together, memory "+bytesize.Text(s.Reserved.Bytes), s.Reserved.Why)
	}
	if at := s.AtLimit; at != nil {
		c.line("", "At %s, with a threshold of %s, memory would have been low on %d of the nodes%s",
			bytesize.Text(at.LimitBytes), bytesize.Text(at.HardBytes), at.Nodes, namedNodes(at.Names))
	}
	if len(s.Leaks) > 0 {
		c.line("", "Leaks that have grown most:")
	}
	for _, l := range s.Leaks {
		c.line("  ", "%s, %s: %s an hour, %s from %s to %s, above %s", l.Node, l.Name, bytesize.Text(l.BytesPerHour),
			bytesize.Text(l.GrowthBytes), output.Time(l.From), output.Time(l.To), bytesize.Text(l.BaseBytes))
	}
	for _, warning := range s.Warnings {
		c.line("", "warning: %s", warning)
	}
	for _, reason := range s.NoSection {
		c.line("", "no section: %s", reason)
	}
}

// hours returns seconds for people.
func hours(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// namedNodes lists names behind a colon, if there are any.
func namedNodes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": " + someOf(names)
}
