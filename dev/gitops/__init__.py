"""Servers for GitOps: a Git server, Flux and Argo CD."""
