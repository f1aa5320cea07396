-- Status variables: they count what statements do, and stand beside InnoDB's names.
CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=$ENGINE;
CREATE TABLE was AS SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME LIKE 'holdfast%';
INSERT INTO t SELECT seq, seq FROM seq_1_to_1000;
UPDATE t SET b = -b WHERE a <= 100;
DELETE FROM t WHERE a > 990;
SELECT COUNT(*) FROM t FORCE INDEX (PRIMARY) WHERE b >= -1000;
-- Of rows: what was done, exactly.
SELECT VARIABLE_NAME, n.VARIABLE_VALUE - w.VARIABLE_VALUE AS difference
FROM information_schema.GLOBAL_STATUS n JOIN was w USING (VARIABLE_NAME)
WHERE VARIABLE_NAME IN ('holdfast_rows_updated', 'holdfast_rows_deleted', 'holdfast_deadlocks', 'holdfast_row_lock_waits')
ORDER BY 1;
-- Of pages and the log: something.
SELECT VARIABLE_NAME, n.VARIABLE_VALUE - w.VARIABLE_VALUE > 0 AS has_grown
FROM information_schema.GLOBAL_STATUS n JOIN was w USING (VARIABLE_NAME)
WHERE VARIABLE_NAME IN ('holdfast_buffer_pool_read_requests', 'holdfast_buffer_pool_write_requests', 'holdfast_pages_created',
  'holdfast_os_log_written', 'holdfast_log_write_requests', 'holdfast_rows_inserted', 'holdfast_rows_read', 'holdfast_trx_rw_commits')
ORDER BY 1;
SHOW GLOBAL STATUS LIKE 'holdfast_page_size';
SELECT t.VARIABLE_VALUE = d.VARIABLE_VALUE + f.VARIABLE_VALUE AS pages_are_free_or_hold_data
FROM information_schema.GLOBAL_STATUS t, information_schema.GLOBAL_STATUS d, information_schema.GLOBAL_STATUS f
WHERE t.VARIABLE_NAME = 'holdfast_buffer_pool_pages_total' AND d.VARIABLE_NAME = 'holdfast_buffer_pool_pages_data'
AND f.VARIABLE_NAME = 'holdfast_buffer_pool_pages_free';
-- All that bear a name of InnoDB's.
SELECT GROUP_CONCAT(LOWER(SUBSTR(h.VARIABLE_NAME, 10)) ORDER BY 1 SEPARATOR ' ') AS as_innodb
FROM information_schema.GLOBAL_STATUS h JOIN information_schema.GLOBAL_STATUS i
ON i.VARIABLE_NAME = REPLACE(h.VARIABLE_NAME, 'HOLDFAST_', 'INNODB_')
WHERE h.VARIABLE_NAME LIKE 'holdfast%';
-- The same, as a table with explanations.
SELECT COUNT(*) = SUM(COMMENT <> '') AS all_explained, COUNT(DISTINCT NAME) = COUNT(*) AS all_different,
  GROUP_CONCAT(DISTINCT TYPE ORDER BY TYPE) AS types FROM information_schema.HOLDFAST_METRICS;
SELECT NAME, TYPE, UNIT, COUNT > 0, TOTAL_TIME > 0, MAX_TIME >= AVG_TIME FROM information_schema.HOLDFAST_METRICS
WHERE NAME IN ('log_fsync_time', 'wait_log', 'rows_inserted') ORDER BY NAME;
DROP TABLE t, was;
