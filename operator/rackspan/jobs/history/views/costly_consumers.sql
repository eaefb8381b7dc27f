-- What consumer groups read across domains at the last scan of each cluster, the most first.
WITH last_scans AS (
  SELECT s.cluster_name, max(s.sequence) AS sequence FROM scans s GROUP BY s.cluster_name
)
SELECT
  g.cluster_name,
  g.consumer_group,
  g.members,
  g.members_without_rack,
  g.partitions,
  g.near,
  g.could_be_near,
  g.cross_bytes_per_second
FROM groups g
JOIN scans s ON s.cluster_name = g.cluster_name AND s.scan_id = g.scan_id
JOIN last_scans l ON l.cluster_name = s.cluster_name AND l.sequence = s.sequence
ORDER BY g.cross_bytes_per_second DESC NULLS LAST, g.cluster_name, g.consumer_group
