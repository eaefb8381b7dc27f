"""The history of scans: tables and documents at one location, queries over them, and trends."""
