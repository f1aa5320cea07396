-- Rows per value of a partitioned table are those of its largest partition, whichever was
-- counted or analyzed last.
CREATE TABLE p (id INT PRIMARY KEY, k INT, d INT, KEY (k)) ENGINE=$ENGINE PARTITION BY RANGE (id)
  (PARTITION old VALUES LESS THAN (10000), PARTITION new VALUES LESS THAN (20000), PARTITION future VALUES LESS THAN MAXVALUE);
INSERT INTO p SELECT seq, seq MOD 4, 1 FROM seq_1_to_4000;
CREATE TABLE o (a INT PRIMARY KEY) ENGINE=$ENGINE;
INSERT INTO o SELECT seq FROM seq_1_to_10;
FLUSH TABLES;
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
-- The newest partition is small, and grows.
INSERT INTO p SELECT 10000 + seq, seq, 1 FROM seq_1_to_30;
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
ANALYZE TABLE p;
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
ALTER TABLE p ANALYZE PARTITION new;
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
-- Partitions that are opened later.
FLUSH TABLES;
SELECT COUNT(*) FROM p PARTITION (old);
SELECT COUNT(*) FROM p PARTITION (old, future);
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
-- It becomes the largest.
INSERT INTO p SELECT 20000 + seq, seq, 1 FROM seq_1_to_9000;
EXPLAIN SELECT COUNT(p.d) FROM o STRAIGHT_JOIN p FORCE INDEX (k) ON p.k = o.a;
