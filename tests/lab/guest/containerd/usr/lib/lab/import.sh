# Gives the archives to containerd.
for tar in "$@"; do
	ctr -n k8s.io images import "$tar"
done
# The CRI plugin pins images only when it pulls them itself; without the label the kubelet's image garbage
# collection may remove the sandbox image, which no registry could bring back.
for image in $(ctr -n k8s.io images list -q | grep '^lab.local/'); do
	ctr -n k8s.io images label "$image" io.cri-containerd.pinned=pinned
done
ctr -n k8s.io images list
