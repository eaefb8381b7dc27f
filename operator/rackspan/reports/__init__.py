"""The result of a scan: a document of bounded size, and the formats in which people read it."""
