-- How long each topic was out of compliance. The namespace is that of the RackTopology, where a cluster is named so.
SELECT
  t.cluster_name,
  CASE WHEN t.cluster_name LIKE '%/%' THEN split_part(t.cluster_name, '/', 1) END AS namespace,
  t.topic,
  sum(t.violation_minutes) AS violation_minutes,
  max(t.finished_at) AS last_scan
FROM topics t
GROUP BY t.cluster_name, t.topic
HAVING sum(t.violation_minutes) > 0
ORDER BY violation_minutes DESC, t.cluster_name, t.topic
