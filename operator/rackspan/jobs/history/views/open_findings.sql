-- What the last scan of each cluster found, the oldest first.
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
SELECT f.cluster_name, f.severity, f.rule, f.topic, f.partition, f.broker, f.reason, f.first_seen, f.age_minutes
FROM findings f
JOIN last_scans l ON l.cluster_name = f.cluster_name AND l.scan_id = f.scan_id
ORDER BY f.first_seen, f.cluster_name, f.id
