package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/oneline"
)

// Plain writes a line for each partition, and again after each interval, count times; 0 means until
// ctx ends. A reader that has enough, such as head, ends it too.
func Plain(ctx context.Context, s Source, out io.Writer, count int) error {
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		read, err := s.Status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, plain(live(read))); errors.Is(err, syscall.EPIPE) {
			return nil
		} else if err != nil {
			return err
		}
		if n == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// plain returns the lines of a scene, each of which begins with its time.
func plain(v scene) string {
	at := v.At.UTC().Format(time.RFC3339)
	var text strings.Builder
	for _, n := range v.Notes {
		fmt.Fprintf(&text, "%s %s\n", at, oneline.Terminal(n.Text))
	}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		if p.Unread {
			fmt.Fprintf(&text, "%s partition %s: the memory is not known\n", at, p.Name)
			continue
		}
		fmt.Fprintf(&text, "%s partition %s: used %s; %s; %s\n", at, p.Name, amount(p.Used, p.Limit), p.State, next(p))
		if p.Misplaced > 0 {
			fmt.Fprintf(&text, "%s partition %s: pods that are not where they belong: %d\n", at, p.Name, p.Misplaced)
		}
		for _, event := range p.Events {
			fmt.Fprintf(&text, "%s partition %s: %s\n", at, p.Name, oneline.Terminal(event))
		}
	}
	if len(v.Partitions) == 0 {
		fmt.Fprintf(&text, "%s no partition is active\n", at)
	}
	return text.String()
}

// next says which pod would be evicted.
func next(p *partition) string {
	if p.NoPods != "" {
		return "pods not known: " + oneline.Terminal(p.NoPods)
	}
	for i := range p.Pods {
		if pod := &p.Pods[i]; pod.Spared == "" {
			return fmt.Sprintf("next %s, which uses %s", oneline.Terminal(pod.Namespace+"/"+pod.Name), bytesize.Text(pod.Uses))
		}
	}
	return "no pod can be evicted"
}
