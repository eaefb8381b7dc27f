"""What a scan found, as a document of bounded size, and the forms in which people read it."""
