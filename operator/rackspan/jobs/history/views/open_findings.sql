-- What the last scan of each cluster found, the oldest first.
WITH last_scans AS (
  SELECT s.cluster_name, max(s.sequence) AS sequence FROM scans s GROUP BY s.cluster_name
)
SELECT f.cluster_name, f.severity, f.rule, f.topic, f.partition, f.broker, f.reason, f.first_seen, f.age_minutes
FROM findings f
JOIN scans s ON s.cluster_name = f.cluster_name AND s.scan_id = f.scan_id
JOIN last_scans l ON l.cluster_name = s.cluster_name AND l.sequence = s.sequence
ORDER BY f.first_seen, f.cluster_name, f.id
