"""Real nodes on this machine, each with containerd and a kubelet, with a pod network and locally built images."""
