"""Real nodes on this machine: containerd and a kubelet for each, a network between their pods, images built here."""
