-- Ranges of two indexes of a table, one after the other, by a second handler each: it
-- went on with the first index.
SET optimizer_switch='index_merge_sort_intersection=on,mrr=on,mrr_sort_keys=on,mrr_cost_based=off';
CREATE TABLE p (id INT, a INT, b INT, c VARCHAR(30), PRIMARY KEY (id, a), KEY a (a), KEY b (b)) ENGINE=$ENGINE PARTITION BY HASH (id + a) PARTITIONS 5;
INSERT INTO p SELECT seq, seq MOD 11, IF(seq MOD 13, seq MOD 9, NULL), CONCAT('v', seq MOD 17) FROM seq_1_to_1000;
ANALYZE TABLE p;
SELECT COUNT(c), SUM(id) FROM p FORCE INDEX (a, b) WHERE a = 3 AND b = 4;
SELECT COUNT(c), SUM(id) FROM p FORCE INDEX (a, b) WHERE a = 3 OR b = 4;
SELECT COUNT(c), SUM(id) FROM p FORCE INDEX (a, b) WHERE a IN (3, 5, 7) AND b BETWEEN 4 AND 6;
SELECT id, c FROM p WHERE a = 1 AND b = 1 ORDER BY id LIMIT 3;
UPDATE p SET c = 'x' WHERE a = 3 AND b = 4;
SELECT COUNT(*) FROM p WHERE c = 'x';
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(30), KEY a (a), KEY b (b)) ENGINE=$ENGINE;
INSERT INTO t SELECT id, a, b, c FROM p;
ANALYZE TABLE t;
SET optimizer_switch='index_merge_intersection=off';
SELECT COUNT(c), SUM(id) FROM t FORCE INDEX (a, b) WHERE a = 3 AND b = 4;
SELECT COUNT(c), SUM(id) FROM t FORCE INDEX (a, b) WHERE a IN (3, 5, 7) AND b BETWEEN 4 AND 6;
-- The index is chosen anew for each row.
SELECT COUNT(t.c), SUM(t.id) FROM t o JOIN t ON (t.a < o.id AND o.id < 4) OR (t.b < o.a AND o.id < 2) WHERE o.id < 10;
