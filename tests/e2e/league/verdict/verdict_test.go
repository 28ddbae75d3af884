package verdict_test

import (
	"encoding/json"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/e2e/league/verdict"
)

const slice = "kubepods.slice/kubepods-system.slice"

func container(uid string) string {
	return slice + "/kubepods-system-pod" + uid + ".slice/cri-containerd-1.scope"
}

var pods = map[string]string{"1-a": "leaker", "2-b": "neighbour"}

func TestDecide(t *testing.T) {
	t.Parallel()
	leaker := verdict.Process{PID: 11, Cgroup: container("1_a")}
	sandbox := verdict.Process{PID: 12, Cgroup: container("1_a"), Ended: true}
	neighbour := verdict.Process{PID: 21, Cgroup: container("2_b")}
	kubelet := verdict.Process{PID: 31, Cgroup: "system.slice/kubelet.service"}
	ended := func(p verdict.Process) verdict.Process { p.Ended = true; return p }
	for _, c := range []struct {
		name string
		seen verdict.Seen
		want string
	}{
		{
			"only the leak ends, and a pod of two processes is one victim",
			verdict.Seen{
				Processes: []verdict.Process{ended(leaker), sandbox, neighbour, kubelet}, Crossed: true,
				Signals: []verdict.Signal{{Millis: -1, PID: 99, From: "sh"}, {Millis: 40, PID: 11, From: "monitor"}},
				Alone:   40, Beside: 30,
			},
			`{"Victims":[{"Name":"leaker"}],"KernelKills":0,"Millis":40,"From":"monitor","Progress":0.75}`,
		},
		{
			"a neighbour, a service that got a signal and a pod of which nothing is known are wrong victims",
			verdict.Seen{
				Processes: []verdict.Process{
					leaker, ended(neighbour), ended(kubelet), {PID: 41, Cgroup: container("3"), Ended: true},
					{PID: 32, Cgroup: "system.slice/apt-daily.service", Ended: true},
				},
				Signals: []verdict.Signal{{PID: 31, From: "earlyoom"}},
			},
			`{"Victims":[{"Name":"kubelet.service","Wrong":true},{"Name":"neighbour","Wrong":true},{"Name":"pod 3","Wrong":true}],` +
				`"KernelKills":0,"Progress":0}`,
		},
		{
			"the kernel's kills at the partition's limit and without a free page count, those at a container's limit do not",
			verdict.Seen{
				Processes: []verdict.Process{ended(leaker)}, Crossed: true,
				Kernel:  []string{"/" + slice, "", "/" + container("1_a")},
				Signals: []verdict.Signal{{Millis: 900, PID: 11, From: "podtool"}, {Millis: 901, PID: 11, From: "runc"}},
			},
			`{"Victims":[{"Name":"leaker"}],"KernelKills":2,"Millis":900,"From":"podtool","Progress":0}`,
		},
		{
			"without a threshold that was crossed there is no time",
			verdict.Seen{Processes: []verdict.Process{ended(leaker)}, Signals: []verdict.Signal{{Millis: 5000, PID: 11, From: "x"}}},
			`{"Victims":[{"Name":"leaker"}],"KernelKills":0,"Progress":0}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(verdict.Decide(c.seen, pods))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.NewReplacer(`{"Victims"`, `{"Node":"","Keeper":"","Load":"","Victims"`).Replace(strings.TrimSuffix(c.want, "}") + `,"Silent":0}`)
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	lines, err := verdict.Read(strings.NewReader(
		`{"Node":"n","Keeper":"a","Load":"x","Victims":[{"Name":"leaker"}],"Millis":10,"Progress":0.9,"Silent":0}
{"Node":"n","Keeper":"b","Load":"x","Victims":[{"Name":"user","Wrong":true}],"KernelKills":1,"Progress":0.5,"Silent":3}
{"Node":"n","Keeper":"a","Load":"x","Victims":[{"Name":"leaker"}],"Millis":30,"Progress":1,"Silent":1}
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := verdict.Harm(lines, "a"); err != nil {
		t.Error(err)
	}
	if err := verdict.Harm(lines, "b"); err == nil || !strings.Contains(err.Error(), "round 2, load x: 1 victims, of which wrong are [{Name:user Wrong:true}], kernel kills 1") {
		t.Errorf("%v, want the round of b", err)
	}
	var got strings.Builder
	if err := verdict.Table(&got, lines); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| x | n | a | 2 | 2 | 0 | 0 | 20 (10 to 30) # | 0.95 (least 0.90) | 1.0 at most |\n",
		"| x | n | b | 1 | 1 | 1 | 1 | none | 0.50 (least 0.50) | 3.0 at most |\n",
	} {
		if !strings.Contains(got.String(), row) {
			t.Errorf("no row %s in:\n%s", row, &got)
		}
	}
}
