-- Rows that get other keys count for the statistics as rows that come and go do.
CREATE TABLE t (id INT PRIMARY KEY, k INT, d INT, KEY (k)) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, NULL, 1 FROM seq_1_to_4000;
CREATE TABLE o (a INT PRIMARY KEY) ENGINE=$ENGINE;
INSERT INTO o SELECT seq FROM seq_1_to_10;
ANALYZE TABLE t, o;
EXPLAIN SELECT COUNT(t.d) FROM o STRAIGHT_JOIN t FORCE INDEX (k) ON t.k = o.a;
-- No index has this column.
UPDATE t SET d = d + 1;
EXPLAIN SELECT COUNT(t.d) FROM o STRAIGHT_JOIN t FORCE INDEX (k) ON t.k = o.a;
UPDATE t SET k = id;
EXPLAIN SELECT COUNT(t.d) FROM o STRAIGHT_JOIN t FORCE INDEX (k) ON t.k = o.a;
