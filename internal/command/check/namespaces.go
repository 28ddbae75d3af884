package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/xrash/smetrics"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/pkg/slices/config"
)

// namespaces finds namespaces of the configuration that no pod of this node has. One that is nearly
// the namespace of pods here is a typing error. Another one need not have pods on each node.
func (c *checks) namespaces(ctx context.Context) []Finding {
	listed := listedNamespaces(c.desired.Config)
	if len(listed) == 0 {
		return saying(OK, "the configuration lists no namespace")
	}
	client, err := c.runtime.Client(ctx)
	if err != nil {
		return nil // reported by the check runtime
	}
	sandboxes, err := client.Sandboxes(ctx)
	if err != nil {
		return saying(Warning, "%v", err)
	}
	present := map[string]bool{}
	for i := range sandboxes {
		if sandboxes[i].Ready {
			present[sandboxes[i].Namespace] = true
		}
	}
	return absentNamespaces(listed, present)
}

// listedNamespace is a namespace in a field of the configuration.
type listedNamespace struct{ field, file, namespace string }

// listedNamespaces returns the namespaces that the sections list.
func listedNamespaces(c *config.Config) []listedNamespace {
	var listed []listedNamespace
	add := func(field string, namespaces []string) {
		for _, namespace := range namespaces {
			listed = append(listed, listedNamespace{field, c.Kubelet.SectionFileWith(field), namespace})
		}
	}
	for i := range c.Partitions {
		add(config.SectionPath(c.Partitions[i].Name)+".namespaces", c.Partitions[i].Namespaces)
	}
	for _, w := range c.Workloads {
		add(kubeletconfig.WorkloadsField+"."+w.Type+".allowedNamespaces", w.Allowed)
	}
	return listed
}

// misspelt returns the namespace of known that another one probably means. Namespaces differ on
// purpose in a digit, in a short word (team-a and team-b) or in a last letter (tenanta and
// tenantb): a typing error in a longer word counts, and a dash.
func misspelt(namespace string, known []string) string {
	const longWord = 5
	words := strings.Split(namespace, "-")
	plain := func(name string) string { return strings.ReplaceAll(name, "-", "") }
	for _, other := range known {
		if plain(other) == plain(namespace) {
			return other
		}
		others, differs := strings.Split(other, "-"), 0
		if len(others) != len(words) {
			continue
		}
		at := 0
		for i := range words {
			if words[i] != others[i] {
				at = i
				differs++
			}
		}
		word, meant := words[at], others[at]
		if differs != 1 || min(len(word), len(meant)) < longWord || digits(word) != digits(meant) {
			continue
		}
		sibling := len(word) == len(meant) && word[:len(word)-1] == meant[:len(meant)-1]
		if !sibling && isNearly(word, meant) {
			return other
		}
	}
	return ""
}

// isNearly reports whether a word is another one with at most one letter in four wrong, or with
// letters in another order, which edits count twice.
func isNearly(word, meant string) bool {
	const alike = 0.93 // of two such words of one length, by Jaro and Winkler
	return smetrics.WagnerFischer(word, meant, 1, 1, 1) <= len(meant)/4 ||
		len(word) == len(meant) && smetrics.JaroWinkler(word, meant, 0.7, 4) >= alike
}

func digits(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, word)
}

// absentNamespaces compares the namespaces of the configuration with those that pods have.
func absentNamespaces(listed []listedNamespace, present map[string]bool) []Finding {
	// What is listed is not what another one means.
	others := maps.Clone(present)
	for _, l := range listed {
		delete(others, l.namespace)
	}
	known := slices.Sorted(maps.Keys(others))
	var found []Finding
	var absent []string
	for _, l := range listed {
		switch near := misspelt(l.namespace, known); {
		case present[l.namespace]:
		case near != "":
			found = append(found, changing(
				Warning, fmt.Sprintf("correct %s in %s, or take it out", l.field, l.file),
				"%s: no pod of this node has the namespace %s; is %s meant?", l.field, l.namespace, near,
			)...)
		case !slices.Contains(absent, l.namespace):
			absent = append(absent, l.namespace)
		}
	}
	if len(absent) > 0 {
		return append(found, saying(OK, "no pod of this node has these namespaces of the configuration: %s", first(absent))...)
	}
	if found == nil {
		return saying(OK, "each namespace of the configuration has pods on this node")
	}
	return found
}
