-- Brokers that came or went more than once.
SELECT b.cluster_name, b.broker, count(*) AS changes, min(b.finished_at) AS first_change, max(b.finished_at) AS last_change
FROM brokers b
WHERE b.changed
GROUP BY b.cluster_name, b.broker
HAVING count(*) > 1
ORDER BY changes DESC, b.cluster_name, b.broker
