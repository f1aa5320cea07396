-- Keys of the beginnings of columns: an entry has no more of such a column than whether it is NULL.
-- The primary key has the beginning, another index all of the column.
CREATE TABLE b (a VARBINARY(60) NOT NULL, n INT, v INT, PRIMARY KEY (a(2)), KEY k (n, a)) ENGINE=$ENGINE;
INSERT INTO b VALUES ('xxxxxxxxxxxx', 1, 1), ('yyyyyyyyyyyy', 1, 2);
SELECT a FROM b WHERE n = 1 ORDER BY a;
SELECT n FROM b FORCE INDEX (k) WHERE n = 1;
REPLACE INTO b SELECT a, n, 5 FROM b;
SELECT * FROM b ORDER BY a;
CREATE TABLE c (a CHAR(20) CHARACTER SET latin1 NOT NULL, n INT, PRIMARY KEY (a(3)), KEY k (n, a), KEY r (a), UNIQUE u (a(4), n)) ENGINE=$ENGINE;
INSERT INTO c VALUES ('abcdefgh', 1), ('bcdefghi', 1), ('cdefghij  ', 2);
SELECT a, LENGTH(a) FROM c FORCE INDEX (k) WHERE n = 1 ORDER BY a DESC;
SELECT a FROM c FORCE INDEX (r) WHERE a > 'abce';
SELECT n FROM c FORCE INDEX (u) WHERE a LIKE 'bcd%';
CREATE TABLE m (a CHAR(20) CHARACTER SET utf8mb4 NOT NULL, f BINARY(8) NOT NULL, n INT, PRIMARY KEY (a(3), f(2)), KEY k (n, a, f)) ENGINE=$ENGINE;
INSERT INTO m VALUES ('ä€😀defgh', 'abcdefgh', 1), ('bcdefghi', 'bcd', 1), ('cdefghij  ', 'cde', 2);
SELECT a, f, LENGTH(a) FROM m FORCE INDEX (k) WHERE n = 1 ORDER BY f DESC;
CREATE TABLE v (a VARCHAR(20) NOT NULL, n INT, PRIMARY KEY (a(3) DESC), KEY k (n, a)) ENGINE=$ENGINE;
INSERT INTO v VALUES ('abcdefgh', 1), ('bcdefghi', 1), ('cdefghij  ', 2);
SELECT a FROM v FORCE INDEX (k) WHERE n = 1 ORDER BY a DESC;
UPDATE v SET a = CONCAT(a, 'zz') WHERE n = 1;
SELECT a FROM v FORCE INDEX (k) WHERE n = 1 ORDER BY a;
-- The position of a row is asked for while only an index is read.
CREATE TABLE t (a TEXT NOT NULL, b INT, c INT, PRIMARY KEY (a(3)), KEY k0 (b, c), KEY kc (c)) ENGINE=$ENGINE;
INSERT INTO t VALUES ('abcdef', 1, 3), ('bcdefg', 1, 2), ('cdefgh', 2, 1), ('', 3, 4);
SELECT c FROM t WHERE b > 0 ORDER BY c;
SELECT c FROM t FORCE INDEX (k0) WHERE b > 0 ORDER BY c DESC LIMIT 2;
SELECT b, c FROM t FORCE INDEX (k0, kc) WHERE b = 2 OR c = 3 ORDER BY c;
SELECT a FROM t FORCE INDEX (k0, kc) WHERE b = 1 AND c = 2;
SELECT a, b, c FROM t FORCE INDEX (k0, kc) WHERE b > 2 OR c < 2 ORDER BY a;
SELECT MIN(c), MAX(c) FROM t WHERE b = 1;
SELECT b, MIN(c) FROM t GROUP BY b ORDER BY b;
UPDATE t SET c = c + 1 WHERE b > 0 ORDER BY c DESC;
DELETE FROM t WHERE b = 1 ORDER BY c LIMIT 1;
SELECT * FROM t ORDER BY a;
CREATE TABLE o (id INT PRIMARY KEY, c INT) ENGINE=$ENGINE;
INSERT INTO o VALUES (1, 2), (2, 4), (3, 5);
UPDATE t, o SET t.b = t.b + 10, o.c = o.c + 10 WHERE t.c = o.c;
DELETE t, o FROM t, o WHERE t.c + 10 = o.c AND o.id > 1;
SELECT * FROM t ORDER BY a;
SELECT * FROM o;
-- The end of a range, or what another index has, is judged by a column of which
-- the index has the beginning.
CREATE TABLE i (c1 TEXT, c2 INT, c3 VARCHAR(30), pk INT PRIMARY KEY, KEY k (c2, c1(10)), KEY d (c2 DESC, c3(4) DESC), KEY l (c3(2)), KEY x (c1(3))) ENGINE=$ENGINE;
INSERT INTO i SELECT IF(seq % 2, 'zebra', 'apple'), seq % 50, CONCAT(IF(seq % 3, 'zebra', 'apple'), seq), seq FROM seq_1_to_1000;
INSERT INTO i VALUES (NULL, 3, NULL, 1001), ('', 3, '', 1002), (NULL, NULL, 'zz', 1003);
ANALYZE TABLE i;
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 IN ('apple', 'zebra') AND c2 IN (1, 2, 3, 4, 5, 6, 7, 8);
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 > 'b' AND c2 = 3;
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 BETWEEN 'apple' AND 'b' AND c2 IN (2, 3);
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 IS NULL AND c2 IN (2, 3) AND pk > 0;
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 < 'b' AND c2 = 3 AND pk % 4;
SELECT pk FROM i FORCE INDEX (k) WHERE c1 < 'zebra' AND c2 = 4 ORDER BY c2 DESC, pk DESC LIMIT 3;
SELECT COUNT(*) FROM i FORCE INDEX (d) WHERE c3 >= 'zebra4' AND c2 IN (3, 4);
SELECT COUNT(*) FROM i FORCE INDEX (d) WHERE c3 <= 'zebra4' AND c2 = 4;
SELECT COUNT(*) FROM i FORCE INDEX (d) WHERE c3 LIKE 'apple4%' AND c2 > 40;
SELECT COUNT(*) FROM i FORCE INDEX (l) WHERE c3 BETWEEN 'apple5' AND 'apple7';
SELECT COUNT(*) FROM i FORCE INDEX (l) WHERE c3 BETWEEN 'b' AND 'zebra3' AND pk < 500;
SELECT COUNT(*), SUM(pk) FROM i FORCE INDEX (x, l) WHERE c1 < 'b' OR c3 BETWEEN 'zebra1' AND 'zebra4';
SELECT COUNT(*), SUM(pk) FROM i FORCE INDEX (x, l) WHERE c1 BETWEEN 'zebra' AND 'zed' OR c3 < 'b';
SELECT COUNT(*), SUM(pk) FROM i FORCE INDEX (k, l) WHERE (c2 = 7 AND c1 >= 'b') OR c3 = 'apple6';
SET optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on';
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 IN ('apple', 'zebra') AND c2 IN (1, 2, 3, 4, 5, 6, 7, 8);
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 BETWEEN 'a' AND 'b' AND c2 BETWEEN 3 AND 9;
SELECT SUM(LENGTH(a)) FROM t FORCE INDEX (k0) WHERE b BETWEEN 1 AND 3;
SET optimizer_switch = DEFAULT;
SET optimizer_switch = 'index_condition_pushdown=off';
SELECT COUNT(*) FROM i FORCE INDEX (k) WHERE c1 IN ('apple', 'zebra') AND c2 IN (1, 2, 3, 4, 5, 6, 7, 8);
SELECT COUNT(*) FROM i FORCE INDEX (l) WHERE c3 BETWEEN 'b' AND 'zebra3' AND pk < 500;
SET optimizer_switch = DEFAULT;
UPDATE i FORCE INDEX (k) SET c3 = 'changed' WHERE c1 IN ('apple', 'zebra') AND c2 IN (1, 2);
SELECT COUNT(*) FROM i WHERE c3 = 'changed';
DELETE FROM i WHERE c1 >= 'b' AND c2 IN (3, 4, 5);
SELECT COUNT(*), SUM(pk) FROM i;
HANDLER i OPEN;
HANDLER i READ k = (7, 'zebra');
HANDLER i READ k NEXT WHERE c1 < 'b' LIMIT 2;
HANDLER i READ k >= (7, 'apple') LIMIT 2;
HANDLER i READ k < (7, 'apple') LIMIT 2;
HANDLER i CLOSE;
-- Primary key of text, and others that hold its beginning only.
CREATE TABLE p (a VARCHAR(40), b VARCHAR(40), c INT, PRIMARY KEY (a, b(2)), KEY (c, b), KEY q (b(3)), KEY z (a(2), c)) ENGINE=$ENGINE;
INSERT INTO p SELECT CONCAT('key', seq DIV 5), CONCAT(CHAR(97 + seq MOD 5), 'x', seq), seq MOD 7 FROM seq_1_to_200;
ANALYZE TABLE p;
SELECT a, b FROM p FORCE INDEX (c) WHERE c = 3 AND b > 'c' ORDER BY a, b LIMIT 5;
SELECT b FROM p FORCE INDEX (c) WHERE c = 3 AND b > 'c' ORDER BY a DESC, b LIMIT 5;
SELECT a FROM p FORCE INDEX (q) WHERE b BETWEEN 'bx1' AND 'bx2' ORDER BY a LIMIT 5;
SELECT a FROM p FORCE INDEX (z) WHERE a LIKE 'key3%' AND c = 2 ORDER BY a;
SELECT a, b, c FROM p FORCE INDEX (q, z) WHERE b < 'ax2' OR a > 'key38' ORDER BY a, b;
SELECT COUNT(*) FROM p x JOIN p y ON x.b = y.b AND x.c = y.c;
CHECK TABLE b, c, m, v, t, i, p EXTENDED;
-- Partitions that are merged by an index which has only the beginning of a text: the server
-- compares the text of rows that it wants nothing of.
CREATE TABLE p (id INT PRIMARY KEY, a TEXT NOT NULL, b INT, KEY ka (b, a(4)), KEY kb (a(1), b)) ENGINE=$ENGINE
  PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (7), PARTITION p2 VALUES LESS THAN MAXVALUE);
INSERT INTO p VALUES (1, 'ca', 1), (4, 'b', NULL), (3, 'A', NULL), (0, 'cb', 11), (11, 'c', 9);
SELECT id FROM p FORCE INDEX (kb) ORDER BY a, id;
SELECT id FROM p FORCE INDEX (ka) ORDER BY b, id;
SELECT 0 UNION SELECT id FROM p WHERE id IN (0, 10, 4);
SELECT MAX(b) FROM p FORCE INDEX (kb) WHERE a >= 'c';
DROP TABLE p;
-- Texts that compare otherwise than their beginnings do: an index of the beginning leads to those
-- alone whose beginnings agree.
CREATE TABLE g (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, KEY k (a(1))) ENGINE=$ENGINE;
INSERT INTO g VALUES (1, 'ss'), (2, _latin1 x'DF'), (3, 'b');
SELECT id FROM g IGNORE INDEX (k) WHERE a IN (_latin1 x'DF', 'b', 'd') ORDER BY id;
SELECT id FROM g FORCE INDEX (k) WHERE a IN (_latin1 x'DF', 'b', 'd') ORDER BY id;
SELECT id FROM g FORCE INDEX (k) WHERE a = 'ss' ORDER BY id;
CREATE TABLE z (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin2 COLLATE latin2_czech_cs, KEY k (a(1))) ENGINE=$ENGINE;
INSERT INTO z VALUES (1, '-1'), (2, 'ab'), (3, 'ch'), (4, 'z');
SELECT id FROM z IGNORE INDEX (k) WHERE a > 'ab' ORDER BY id;
SELECT id FROM z FORCE INDEX (k) WHERE a > 'ab' ORDER BY id;
