-- System variables: live changes, and values that are refused.
SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'holdfast%' AND Variable_name NOT LIKE '%backup%';
-- The size of the pool takes effect at once.
SET GLOBAL holdfast_buffer_pool_size = 64 * 1024 * 1024;
SELECT @@holdfast_buffer_pool_size, POOL_SIZE FROM information_schema.HOLDFAST_BUFFER_POOL_STATS;
SET GLOBAL holdfast_buffer_pool_size = 5 * 1024 * 1024;
SELECT @@holdfast_buffer_pool_size, POOL_SIZE FROM information_schema.HOLDFAST_BUFFER_POOL_STATS;
-- Too small, too large, negative, not a number: it stays.
SET GLOBAL holdfast_buffer_pool_size = 1000;
SET GLOBAL holdfast_buffer_pool_size = 1024 * 1024 * 1024 * 1024;
SET GLOBAL holdfast_buffer_pool_size = -1;
SET GLOBAL holdfast_buffer_pool_size = 'large';
SET GLOBAL holdfast_buffer_pool_size = NULL;
SELECT @@holdfast_buffer_pool_size, POOL_SIZE FROM information_schema.HOLDFAST_BUFFER_POOL_STATS;
SET GLOBAL holdfast_buffer_pool_size = DEFAULT;
SELECT @@holdfast_buffer_pool_size, POOL_SIZE FROM information_schema.HOLDFAST_BUFFER_POOL_STATS;
-- The policy, and the knobs of midpoint_lru.
CREATE TABLE t (a INT PRIMARY KEY, b CHAR(200)) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, 'x' FROM seq_1_to_2000;
SET GLOBAL holdfast_old_blocks_time = 500;
SET GLOBAL holdfast_replacement_policy = midpoint_lru;
SELECT DISTINCT QUEUE IN ('young', 'old') AS of_midpoint_lru FROM information_schema.HOLDFAST_BUFFER_PAGE;
SET GLOBAL holdfast_old_blocks_pct = 50, GLOBAL holdfast_old_blocks_time = 0;
SET GLOBAL holdfast_old_blocks_pct = 4;
SET GLOBAL holdfast_old_blocks_pct = 96;
SELECT @@holdfast_old_blocks_pct, @@holdfast_old_blocks_time;
SELECT COUNT(*), SUM(a) FROM t;
SET GLOBAL holdfast_replacement_policy = lru;
SELECT DISTINCT QUEUE FROM information_schema.HOLDFAST_BUFFER_PAGE;
SET GLOBAL holdfast_replacement_policy = arc;
SET GLOBAL holdfast_replacement_policy = DEFAULT, GLOBAL holdfast_old_blocks_pct = DEFAULT, GLOBAL holdfast_old_blocks_time = DEFAULT;
SELECT DISTINCT QUEUE IN ('small', 'main', 'ring') AS of_holdfast FROM information_schema.HOLDFAST_BUFFER_PAGE;
SELECT COUNT(*), SUM(a) FROM t;
-- The others.
SET GLOBAL holdfast_scan_hints = OFF;
SELECT COUNT(*), SUM(a) FROM t;
SET GLOBAL holdfast_scan_hints = ON;
SET GLOBAL holdfast_flush_log_at_trx_commit = 3;
SET GLOBAL holdfast_flush_log_at_trx_commit = 2;
INSERT INTO t VALUES (0, '');
SET GLOBAL holdfast_flush_log_at_trx_commit = 1;
SET SESSION holdfast_lock_wait_timeout = -1;
SET SESSION holdfast_lock_wait_timeout = 7;
SELECT @@SESSION.holdfast_lock_wait_timeout, @@GLOBAL.holdfast_lock_wait_timeout;
SET SESSION holdfast_snapshot_isolation = ON;
SET GLOBAL holdfast_log_file_size = 1;
SET GLOBAL holdfast_log_file_size = 8388608;
SET GLOBAL holdfast_log_file_size = 268435456;
SELECT @@GLOBAL.holdfast_log_file_size;
INSERT INTO t VALUES (1000000, '');
SET GLOBAL holdfast_log_file_size = 100663296;
SET GLOBAL holdfast_page_size = 32768;
SET GLOBAL holdfast_flush_method = fsync;
SET SESSION holdfast_buffer_pool_size = 6000000;
-- No InnoDB name with another meaning.
SELECT GROUP_CONCAT(h.VARIABLE_NAME ORDER BY 1 SEPARATOR ' ') AS without_counterpart_in_innodb
FROM information_schema.SYSTEM_VARIABLES h LEFT JOIN information_schema.SYSTEM_VARIABLES i
ON i.VARIABLE_NAME = REPLACE(h.VARIABLE_NAME, 'HOLDFAST_', 'INNODB_')
WHERE h.VARIABLE_NAME LIKE 'holdfast%' AND i.VARIABLE_NAME IS NULL;
