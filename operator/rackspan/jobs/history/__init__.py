"""What scans leave behind: tables, documents and manifests at one location, and what they say over time."""
