-- What each scan found that the scan before did not (new), and the other way round (cleared).
WITH ordered AS (
  SELECT
    s.cluster_name,
    s.scan_id,
    s.finished_at,
    row_number() OVER (PARTITION BY s.cluster_name ORDER BY s.sequence, s.scan_id) AS place
  FROM scans s
),
placed AS (
  SELECT o.place, f.cluster_name, f.id, f.severity, f.rule, f.topic, f.partition, f.broker
  FROM findings f
  JOIN ordered o ON o.cluster_name = f.cluster_name AND o.scan_id = f.scan_id
)
SELECT
  o.cluster_name, o.scan_id, o.finished_at, 'new' AS change, p.severity, p.rule, p.topic, p.partition, p.broker, p.id
FROM placed p
JOIN ordered o ON o.cluster_name = p.cluster_name AND o.place = p.place
WHERE p.place > 1 AND NOT EXISTS (
  SELECT 1 FROM placed q WHERE q.cluster_name = p.cluster_name AND q.id = p.id AND q.place = p.place - 1
)
UNION ALL
SELECT
  o.cluster_name, o.scan_id, o.finished_at, 'cleared' AS change, p.severity, p.rule, p.topic, p.partition, p.broker, p.id
FROM placed p
JOIN ordered o ON o.cluster_name = p.cluster_name AND o.place = p.place + 1
WHERE NOT EXISTS (
  SELECT 1 FROM placed q WHERE q.cluster_name = p.cluster_name AND q.id = p.id AND q.place = p.place + 1
)
ORDER BY finished_at, cluster_name, change DESC, id
