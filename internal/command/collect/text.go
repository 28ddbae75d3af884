package collect

import (
	"regexp"
	"strings"
	"sync"

	"nodepartition/internal/node/options"
)

// pattern returns a function that compiles a regular expression when it is first needed: the daemon
// links this package, and would hold them all in memory.
func pattern(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}

func patterns(all ...string) func() []*regexp.Regexp {
	return sync.OnceValue(func() []*regexp.Regexp {
		out := make([]*regexp.Regexp, 0, len(all))
		for _, s := range all {
			out = append(out, regexp.MustCompile(s))
		}
		return out
	})
}

// leftOut stands for text that is not known to be harmless.
const leftOut = "[left out]"

// maxText bounds a text, in bytes.
const maxText = 2000

// word is the shape of a word: in one case, or a name of a field such as memoryLimit, cgroupsPerQOS
// and staticPodURLHeader. A key without digits has no long runs of small letters.
var word = pattern(`^([A-Z]?[a-z]{0,31}('s|'t)?|[A-Z]{1,12}s?|[a-z]{0,31}([A-Z]{1,4}[a-z]{2,20}){1,5}[A-Z]{0,4}|[a-z]{2,20}[A-Z]{1,4})$`)

// harmless lists the shapes of other words that text keeps. A word of any other shape is left out:
// mixed letters and digits of some length are as likely a key as a name.
var harmless = patterns(
	`^[+-]?[0-9]{1,20}([.:/-][0-9]{1,9}){0,6}%?[a-zA-Zµ]{0,3}$`, // numbers, quantities, addresses
	`^([0-9.]{1,9}(ns|µs|us|ms|s|m|h)){1,4}$`,                   // durations
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(Z|[+-][0-9:]{5})$`,
	`^[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}$`, // UIDs
	`^[0-9]{1,5}([,-][0-9]{1,5}){0,60}$`,                // CPUs
	`^v?[0-9]{1,4}(\.[0-9]{1,6}){1,4}([-+~][a-z0-9.~+]{1,24})?$`,
	`^(v[0-9]{1,2}((alpha|beta)[0-9]{1,2})?|cgroup2?|k3s|rke2|http2?|ipv[46]|kep-[0-9]{4})$`,
	`^[-–=<>|+*&#·]{1,3}$`,
)

var (
	// simple is an element of a path or a name that is a word in one case, and generated one with
	// digits, as short as the hash of a ReplicaSet.
	simple    = pattern(`^([a-z]{1,32}|[A-Z]{1,12})$`)
	generated = pattern(`^[a-z0-9]{1,10}$`)
	digits    = pattern(`^[0-9]{1,20}$`)
	// identifier is the ID of a container, or the part of a slice's name with the UID of a static pod.
	identifier = pattern(`^([0-9a-f]{64}|pod[0-9a-f]{32})$`)
	// bootstrap is the form of a bootstrap token of kubeadm.
	bootstrap = pattern(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	uid       = pattern(`[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}`)
	// pair is an attribute.
	pair = pattern(`^([A-Za-z][A-Za-z_.-]{0,40})=(.*)$`)
	// revealing is a word before which a secret may follow.
	revealing = pattern(`(?i)token|passw|passphrase|pwd|secret|bearer|authoriz|\bauth\b|credential|(api|access)-?key|_key\b|` +
		`private|cookie|signature|-----BEGIN`)
	// userinfo is a user with a password before a host.
	userinfo = pattern(`:.*@`)
)

// attributes lists the attributes whose values text keeps, if they are harmless: attributes of our
// log and of the kubelet's log, our flags, and flags of the kubelet that messages mention.
var attributes = set(`
	available below condition container containerName decided down error estimated from grace id limit
	method namespace namespaces node pod pods podUID priority problem processes reason request server slice
	socket source step threshold to took uid up working-set node_partition config config-dir
	cgroup-driver reserved-cpus ` + strings.Join(options.Names(), " "))

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// text returns s with the words that are known to be harmless, by their shapes. After a word that
// may announce a secret nothing is kept.
func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " ..."
	}
	var kept []string
	for _, piece := range strings.Fields(s) {
		if revealing().MatchString(piece) {
			kept = append(kept, leftOut)
			break
		}
		if piece = keep(piece); piece == leftOut && len(kept) > 0 && kept[len(kept)-1] == leftOut {
			continue
		}
		kept = append(kept, piece)
	}
	return strings.Join(kept, " ")
}

// keep returns a word with its punctuation, or leftOut.
func keep(s string) string {
	body := strings.TrimLeft(s, `"'([{<`+"`")
	before := s[:len(s)-len(body)]
	core := strings.TrimRight(body, `"')]}>,;:.?!\`+"`")
	after := body[len(core):]
	if core == "" {
		return s
	}
	if flag, ok := strings.CutPrefix(core, "--"); ok {
		core, before = flag, before+"--"
	}
	if match := pair().FindStringSubmatch(core); match != nil {
		if !attributes[match[1]] {
			return leftOut
		}
		value := keep(match[2])
		if match[2] == "" {
			value = ""
		}
		return before + match[1] + "=" + value + after
	}
	if server, ok := address(core); ok {
		return before + server + after
	}
	if strings.Contains(core, "://") {
		return leftOut // where its user and its password end is not known
	}
	if kept, ok := known(core); ok {
		return before + kept + after
	}
	return leftOut
}

// address returns the scheme, the host and the port of a URL. Users, paths and queries are left
// out.
func address(s string) (string, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return "", false
	}
	if scheme == "unix" {
		path, ok := known(rest)
		return "unix://" + path, ok
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	host, port, hasPort := strings.Cut(host, ":")
	name, ok := known(host)
	if !ok || !word().MatchString(scheme) || hasPort && !digits().MatchString(port) {
		return "", false
	}
	if hasPort {
		name += ":" + port
	}
	return scheme + "://" + name, true
}

// known returns a word of a known shape. It shortens the IDs of containers.
func known(s string) (string, bool) {
	if word().MatchString(s) {
		return s, true
	}
	for _, shape := range harmless() {
		if shape.MatchString(s) {
			return s, true
		}
	}
	return name(s)
}

// separators are the characters between the elements of a path or a name.
const separators = `/.-_:@\~,#`

// name returns a path, or the name of an object of the cluster or of a unit, with shortened IDs of
// containers.
func name(s string) (string, bool) {
	if len(s) > 400 || bootstrap().MatchString(s) || userinfo().MatchString(s) {
		return "", false
	}
	// A UID has elements of its own.
	bare := uid().ReplaceAllString(s, "x")
	// Fields have names such as systemPartition.memoryLimit. A key in base64 has no dots.
	dotted := !strings.ContainsAny(s, strings.ReplaceAll(separators, ".", ""))
	for part := range strings.FieldsFuncSeq(bare, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		switch {
		case identifier().MatchString(part):
			s = strings.ReplaceAll(s, part, part[:15])
		case digits().MatchString(part), generated().MatchString(part), simple().MatchString(part):
		case dotted && word().MatchString(part):
		default:
			return "", false
		}
	}
	return s, true
}
