"""What GitOps runs on: a Git server, and Flux's controllers."""
