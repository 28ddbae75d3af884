package audit

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// value is an expected value of a file of a cgroup.
type value interface {
	// equal reports whether the text of the file has the value. It is true for a text that it cannot
	// parse.
	equal(text string) bool
	// text returns the value as the file shows it, and property as systemctl set-property takes it.
	text() string
	property() string
}

const (
	unlimited = "max"
	infinity  = "infinity"
)

// byteLimit is a limit of memory. The kernel rounds limits down to whole pages.
type byteLimit struct {
	file  string
	value uint64
	page  uint64
}

func (b byteLimit) rounded() uint64 { return b.value / b.page * b.page }

func (b byteLimit) equal(text string) bool { return text == b.text() }
func (b byteLimit) text() string           { return strconv.FormatUint(b.rounded(), 10) }
func (b byteLimit) property() string {
	return properties[b.file] + "=" + strconv.FormatUint(b.value, 10)
}

// count is a number without a unit: a weight, or a limit of processes.
type count struct {
	file  string
	value uint64
}

func (c count) equal(text string) bool { return text == c.text() }
func (c count) text() string           { return strconv.FormatUint(c.value, 10) }
func (c count) property() string       { return properties[c.file] + "=" + c.text() }

// none is the absence of a limit in the file of that name.
type none string

func (n none) equal(text string) bool {
	first, _, _ := strings.Cut(text, " ") // cpu.max has the period behind it
	return first == unlimited
}

func (n none) text() string {
	if n == cpuMax {
		return unlimited + " 100000"
	}
	return unlimited
}

func (n none) property() string {
	if n == cpuMax {
		return properties[cpuMax] + "="
	}
	return properties[string(n)] + "=" + infinity
}

// quota is a limit of CPU in thousandths of a CPU. For systemd, runc rounds it up to a whole
// percent of a CPU, and the file has either value (addCPUQuota, opencontainers/cgroups
// systemd/common.go).
type quota int64

// minQuota is the smallest quota in microseconds of a period (MinQuotaPeriod,
// pkg/kubelet/cm/helpers_linux.go), and quotaPeriod the period.
const (
	minQuota    = 1000
	quotaPeriod = 100_000
)

func (q quota) micros() int64 { return max(int64(q)*quotaPeriod/1000, minQuota) }

func (q quota) percent() int64 { return (q.micros()*100 + quotaPeriod - 1) / quotaPeriod }

func (q quota) equal(text string) bool {
	percent, ok := parseQuota(text)
	return !ok || percent == q.percent()
}

func (q quota) text() string     { return fmt.Sprintf("%d %d", q.micros(), quotaPeriod) }
func (q quota) property() string { return fmt.Sprintf("%s=%d%%", properties[cpuMax], q.percent()) }

// noQuota is the percentage of a cpu.max without a limit.
const noQuota = -1

// parseQuota parses cpu.max into percent of a CPU, rounded up, or noQuota.
func parseQuota(text string) (percent int64, ok bool) {
	first, second, _ := strings.Cut(text, " ")
	if first == unlimited {
		return noQuota, true
	}
	micros, err := strconv.ParseInt(first, 10, 64)
	period, err2 := strconv.ParseInt(second, 10, 64)
	const most = 1 << 50
	if err != nil || err2 != nil || period <= 0 || period > most || micros < 0 || micros > most {
		return 0, false
	}
	return (micros*100 + period - 1) / period, true
}

// cpus is a set of CPUs.
type cpus cpuset.CPUSet

func (c cpus) equal(text string) bool {
	set, err := cpuset.Parse(text)
	return err != nil || set.Equals(cpuset.CPUSet(c))
}

func (c cpus) text() string     { return cpuset.CPUSet(c).String() }
func (c cpus) property() string { return properties[cpusetCPUs] + "=" + c.text() }

// The files of a cgroup that rules name.
const (
	cpuWeight  = "cpu.weight"
	cpuMax     = "cpu.max"
	memoryMax  = "memory.max"
	memoryHigh = "memory.high"
	swapMax    = "memory.swap.max"
	pidsMax    = "pids.max"
	cpusetCPUs = "cpuset.cpus"
	effective  = "cpuset.cpus.effective"
)

// properties holds the settings of systemctl set-property by the name of the file that systemd
// writes (systemd.resource-control(5)).
var properties = map[string]string{
	cpuWeight: "CPUWeight", cpuMax: "CPUQuota", memoryMax: "MemoryMax", memoryHigh: "MemoryHigh", swapMax: "MemorySwapMax",
	pidsMax: "TasksMax", cpusetCPUs: "AllowedCPUs",
}
