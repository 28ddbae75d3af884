package collect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"nodepartition/internal/node/options"
)

// TestTextKeeps: what the programs and the kubelet say about a fault stays readable.
func TestTextKeeps(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"the configuration is not valid; following the last good one of this boot",
		"/var/lib/kubelet/config.yaml: systemPartition.memoryLimit: must be above zero; want a quantity such as 4Gi",
		"evicting a pod, because the memory of the system partition is low namespace=kube-system pod=coredns-6f6b679f8f-x7k2p threshold=hard available=20Mi",
		"memory.max of kubepods.slice/kubepods-system.slice is 536870912 bytes, above the 67108864 of the configuration",
		"kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice",
		"pod 11111111-2222-3333-4444-555555555555 took=1.5s grace=30s 2026-11-20T10:11:12.345Z",
		"the runtime uses cgroupfs: its containers are in no slices of systemd",
		"no socket at /run/containerd/containerd.sock, 10.0.0.1:6443 cannot be reached",
		`evictions are reported to the API server kubeconfig=/etc/kubernetes/kubelet.conf server=https://10.0.0.1:6443`,
		"user@1000.service, https://10.0.0.1:6443, unix:///run/containerd/containerd.sock",
		"systemd 257.13-1~deb13u1, containerd v2.3.7, cpuset 0-3,8",
		"read unix /run/nri/nri.sock: connection refused (100% of 3)",
	} {
		if got := text(s); got != s {
			t.Errorf("%q became\n%q", s, got)
		}
	}
}

// TestTextLeavesOut: what may be a secret is left out, wherever it is.
func TestTextLeavesOut(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl",
		"AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"abcdef.0123456789abcdef",
		"S3cr3tValue",
		"deadbeefdeadbeefdead1",
		"Authorization: Basic correcthorse",
		"the password is correcthorse battery",
		"PASSWORD=correcthorse",
		"DATABASE_URL=postgres://admin:correcthorse@db/x",
		"--token correcthorse",
		"--anything=correcthorse",
		"https://admin:correcthorse@db.example/path?key=S3cr3tValue",
		`err="Get \"https://10.0.0.1/?token=correcthorse\": EOF"`,
		"-----BEGIN CERTIFICATE----- MIIBcorrecthorse",
		`{"auth":"correcthorse"}`,
		strings.Repeat("a", 5000),
		"proxyconnect tcp: dial admin:correcthorse@proxy.example:3128",
		"server=admin:correcthorse@x //admin:correcthorse@db/x https:admin:correcthorse@db",
		"https://admin:correct/correcthorse@db/x k8s://admin:correcthorse@db https://correcthorse@h:6443x",
		"unix://a:correcthorse@b",
		"pwd: correcthorse",
		"passphrase correcthorse",
		"auth: correcthorse",
		"access-key correcthorse",
		"_json_key:correcthorse",
		"ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	} {
		got := text(s)
		for _, secret := range []string{"correcthorse", "S3cr3t", "abcdef", "AKIA", "eyJ", "deadbeef", "wJalr", "MIIB", "ghp_", strings.Repeat("a", 40)} {
			if strings.Contains(got, secret) {
				t.Errorf("%q became %q, with %q", s, got, secret)
			}
		}
	}
}

// TestTextRandomKeys: no random key passes, whatever its alphabet.
func TestTextRandomKeys(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const letters, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "0123456789"
	for name, alphabet := range map[string]string{
		"base64": letters + digits + "+/", "base64url": letters + digits + "-_", "hex": digits + "abcdef", "base32": letters[:26] + "234567",
	} {
		for range 500 {
			key := make([]byte, 20+random.IntN(60))
			for i := range key {
				key[i] = alphabet[random.IntN(len(alphabet))]
			}
			for _, form := range []string{"%s", "found %s here", `key "%s"`, "a=%s", "error=%s", "/%s", "x/%s", "https://%s@host/", "pod-%s"} {
				if got := text(fmt.Sprintf(form, key)); strings.Contains(got, string(key)) {
					t.Errorf("%s: %s passes as %q", name, key, got)
				}
			}
		}
	}
}

// TestTextShortensIDs: the ID of a container is not a secret, and its first characters tell
// containers apart.
func TestTextShortensIDs(t *testing.T) {
	t.Parallel()
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for word, want := range map[string]string{
		"cri-containerd-" + id + ".scope":             "cri-containerd-0123456789abcde.scope",
		"kubepods-burstable-pod" + id[:32] + ".slice": "kubepods-burstable-pod0123456789ab.slice",
		id[:32]: leftOut, // as likely a key
	} {
		if got := text(word); got != want {
			t.Errorf("%s became %q; want %q", word, got, want)
		}
	}
}

// TestCommandLineOurs: each flag of run keeps its value.
func TestCommandLineOurs(t *testing.T) {
	t.Parallel()
	for _, name := range options.Names() {
		args := []string{"--" + name + "=true"}
		if got := commandLine(args, ourFlags); !slices.Equal(got, args) || text(args[0]) != args[0] {
			t.Errorf("%q became %q, %q in a message", args, got, text(args[0]))
		}
	}
}

// TestCommandLineDash: a value that begins with a dash is not a flag.
func TestCommandLineDash(t *testing.T) {
	t.Parallel()
	got := commandLine([]string{"--token", "-correctHorseBattery", "--config=/a", "-v", "5"}, flags)
	if want := []string{"--token", leftOut, "--config=/a", "--v", "5"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}
