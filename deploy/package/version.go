package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// version is a version in the parts that deb and rpm order: 0.1.0 is newer than 0.1.0~rc.1, and
// 0.1.0+5.g3f1fd6b newer than both.
type version struct {
	// number is the version proper, such as 0.1.0.
	number string
	// before is a version before it, such as rc.1, or empty.
	before string
	// after names commits after it, or empty.
	after string
}

// tagged matches what git describe prints of a tree with a tag: the tag, and the number of commits
// since and the last one, if there are any.
var tagged = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+))??(?:-(\d+)-g([0-9a-f]+))?$`)

// commit matches what it prints without a tag.
var commit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// parseVersion returns the version that git describe --tags --always --dirty prints. Without a tag
// it is older than each release, and ordered by the time of the last commit.
func parseVersion(described string, last time.Time) (version, error) {
	clean := strings.TrimSuffix(described, "-dirty")
	var v version
	switch match := tagged.FindStringSubmatch(clean); {
	case match != nil:
		v = version{number: match[1], before: match[2]}
		if match[3] != "" {
			v.after = match[3] + ".g" + match[4]
		}
	case commit.MatchString(clean):
		v = version{number: "0.0.0", before: "git" + last.Format("20060102150405") + "." + clean}
	default:
		return v, fmt.Errorf("version %q: want a tag such as v0.1.0 or v0.1.0-rc.1, or what git describe prints", described)
	}
	if clean != described {
		v.after = strings.TrimPrefix(v.after+".dirty", ".")
	}
	return v, nil
}

// String returns the version as the packages have it, without the number of the build.
func (v version) String() string {
	text := v.number
	if v.before != "" {
		text += "~" + v.before
	}
	if v.after != "" {
		text += "+" + v.after
	}
	return text
}
