"""A scan, and a fleet's last scans, as self-contained HTML pages. Only `rendering` and `fleet_page` need Bokeh."""
