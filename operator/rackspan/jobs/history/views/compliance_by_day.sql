-- Each day of a cluster: scans, the share of partitions in compliance, and the worst scan.
SELECT
  s.cluster_name,
  CAST(s.finished_at AS DATE) AS day,
  count(*) AS scans,
  round(100 * avg(1 - CAST(s.non_compliant AS DOUBLE) / greatest(s.partitions, 1)), 3) AS compliant_percent,
  max(s.non_compliant) AS most_non_compliant,
  max(s.findings) AS most_findings,
  max(s.critical) AS most_critical,
  sum(s.violation_minutes) AS violation_minutes
FROM scans s
GROUP BY s.cluster_name, CAST(s.finished_at AS DATE)
ORDER BY s.cluster_name, day
