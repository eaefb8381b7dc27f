-- What consumer groups read across domains at the last scan of each cluster, the most first.
WITH last_scans AS (
  SELECT cluster_name, scan_id
  FROM (
    SELECT
      s.cluster_name,
      s.scan_id,
      row_number() OVER (PARTITION BY s.cluster_name ORDER BY s.sequence DESC, s.scan_id DESC) AS place
    FROM scans s
  ) ranked
  WHERE place = 1
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
JOIN last_scans l ON l.cluster_name = g.cluster_name AND l.scan_id = g.scan_id
ORDER BY g.cross_bytes_per_second DESC NULLS LAST, g.cluster_name, g.consumer_group
