-- How long findings that are gone had been there, by rule. A time ends with the first scan without the finding.
WITH ordered AS (
  SELECT
    s.cluster_name,
    s.scan_id,
    s.minutes,
    row_number() OVER (PARTITION BY s.cluster_name ORDER BY s.sequence, s.scan_id) AS place
  FROM scans s
),
seen AS (
  SELECT f.cluster_name, f.rule, f.id, f.first_seen, max(o.place) AS last_place, max(f.age_minutes) AS age_minutes
  FROM findings f
  JOIN ordered o ON o.cluster_name = f.cluster_name AND o.scan_id = f.scan_id
  GROUP BY f.cluster_name, f.rule, f.id, f.first_seen
)
SELECT
  n.cluster_name,
  n.rule,
  count(*) AS repaired,
  round(avg(n.age_minutes + o.minutes), 1) AS mean_minutes,
  round(max(n.age_minutes + o.minutes), 1) AS most_minutes
FROM seen n
JOIN ordered o ON o.cluster_name = n.cluster_name AND o.place = n.last_place + 1
GROUP BY n.cluster_name, n.rule
ORDER BY mean_minutes DESC, n.cluster_name, n.rule
