-- Large columns are kept apart from the rest of their row: a statement that reads and changes none
-- of them has nothing to do with them.
SET NAMES utf8mb4;
SET sql_mode = '', timestamp = 1700000000;
CREATE TABLE t (id INT PRIMARY KEY, doc LONGTEXT, n INT, title VARCHAR(300), body VARCHAR(12000), raw MEDIUMBLOB, tail CHAR(20), KEY (n), KEY (doc(10))) ENGINE=$ENGINE;
INSERT INTO t SELECT seq, REPEAT(CHAR(97 + seq % 26), seq * 700), seq % 7, CONCAT('title ', seq), IF(seq % 3, NULL, REPEAT('ü', seq * 20)), IF(seq % 4, REPEAT(x'00ff', seq * 10), NULL), seq FROM seq_1_to_60;
SELECT id, n, title, tail FROM t ORDER BY id;
SELECT id, MD5(doc), LENGTH(doc), MD5(body), LENGTH(raw) FROM t ORDER BY id;
SELECT id, title, LENGTH(raw) FROM t WHERE n = 3 ORDER BY id;
SELECT id, tail FROM t WHERE doc LIKE 'ccc%' ORDER BY id;
SELECT COUNT(*), SUM(n), MAX(title) FROM t;
SELECT title, MD5(doc) FROM t ORDER BY title DESC LIMIT 3;
-- How often the engine has read and written large values; InnoDB's do not count.
CREATE FUNCTION counted(what TEXT) RETURNS INT RETURN (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = CONCAT('HOLDFAST_OVERFLOW_', what));
SET @reads = counted('READS');
SELECT SUM(n), SUM(LENGTH(title)), COUNT(tail) FROM t IGNORE INDEX (n);
SELECT title FROM t WHERE id = 59;
SELECT COUNT(title) FROM t FORCE INDEX (n) WHERE n BETWEEN 2 AND 4;
SELECT a.id FROM t a JOIN t b ON b.id = a.id + 1 WHERE b.tail = '41';
ALTER TABLE t ADD KEY (title), ALGORITHM=NOCOPY;
SELECT counted('READS') - @reads;
SET @writes = counted('WRITES');
UPDATE t SET n = n + 1, title = CONCAT(title, ' changed') WHERE id > 20;
UPDATE t SET tail = NULL WHERE id = 59;
UPDATE t SET doc = CONCAT(doc, '') WHERE id = 58;
SELECT counted('WRITES') - @writes;
SELECT id, n, title, tail, MD5(doc), MD5(body), MD5(raw) FROM t WHERE id > 18 ORDER BY id;
-- Versions have them together, and lose them one by one.
BEGIN;
UPDATE t SET n = 100 WHERE id > 50;
SAVEPOINT s;
UPDATE t SET n = 101, doc = CONCAT('x', doc) WHERE id > 55;
UPDATE t SET n = 102 WHERE id > 53;
SELECT id, n, MD5(doc) FROM t WHERE id > 50;
ROLLBACK TO s;
SELECT id, n, MD5(doc) FROM t WHERE id > 50;
ROLLBACK;
SELECT id, n, MD5(doc) FROM t WHERE id > 50;
UPDATE t SET doc = 'short' WHERE id % 10 = 0;
UPDATE t SET doc = REPEAT('long', 5000) WHERE id % 10 = 1;
UPDATE t SET raw = REPEAT('r', 30000), body = NULL WHERE id % 10 = 2;
UPDATE t SET id = id + 1000 WHERE id % 10 = 3;
REPLACE INTO t (id, doc, n) VALUES (4, REPEAT('q', 9000), 4), (5, 'w', 5);
INSERT INTO t (id, doc, n) VALUES (6, 'not taken', 6), (7, 'nor this', 7) ON DUPLICATE KEY UPDATE n = n + 50, tail = LEFT(doc, 5);
DELETE FROM t WHERE id % 10 = 8;
SELECT id, n, title, tail, MD5(doc), MD5(body), MD5(raw) FROM t ORDER BY id;
SELECT id FROM t FORCE INDEX (doc) WHERE doc LIKE 'longlonglo%' ORDER BY id;
CHECK TABLE t EXTENDED;
CHECKSUM TABLE t;
-- Rows of before lack a column that comes; a copy has all in one layout.
ALTER TABLE t ADD more TEXT DEFAULT 'more', ADD k INT NOT NULL DEFAULT 9, ALGORITHM=INSTANT;
UPDATE t SET k = 10 WHERE id < 12;
UPDATE t SET more = REPEAT('m', 6000) WHERE id BETWEEN 10 AND 14;
SELECT id, k, LENGTH(more), LENGTH(doc), title FROM t ORDER BY id;
SELECT SUM(k), COUNT(tail) FROM t;
ALTER TABLE t MODIFY n BIGINT, ALGORITHM=COPY;
SELECT SUM(k), COUNT(tail), SUM(LENGTH(doc)), SUM(LENGTH(more)) FROM t;
CHECKSUM TABLE t;
DROP TABLE t;
-- Many columns, none of them large.
CREATE TABLE w (id INT PRIMARY KEY, a VARCHAR(900), b VARCHAR(900), c VARCHAR(900), d VARCHAR(900), e TEXT, f TEXT, g VARCHAR(900), h VARCHAR(900), i VARCHAR(900), j VARCHAR(900), k TINYTEXT, z INT) ENGINE=$ENGINE;
INSERT INTO w SELECT seq, REPEAT('a', seq * 9), REPEAT('b', seq * 8), REPEAT('c', seq * 9), REPEAT('d', seq * 9), REPEAT('e', seq * 11), '', REPEAT('g', seq * 9), REPEAT('h', seq * 7), REPEAT('i', seq * 9), REPEAT('j', seq * 9), REPEAT('k', seq), seq FROM seq_1_to_100;
SELECT SUM(z), SUM(LENGTH(k)) FROM w;
SELECT id, LENGTH(a), LENGTH(b), RIGHT(h, 3), k FROM w WHERE id % 9 = 0;
UPDATE w SET z = z + 1, b = CONCAT(b, 'x') WHERE id % 2;
SELECT SUM(z), SUM(LENGTH(a)), SUM(CRC32(b)), SUM(CRC32(CONCAT(c, d, e, f, g))), SUM(CRC32(CONCAT(h, i, j, k))) FROM w;
SELECT id, z, LENGTH(b) FROM w ORDER BY i DESC LIMIT 5;
CHECK TABLE w EXTENDED;
DROP TABLE w;
-- Partitions, generated and compressed columns, triggers.
CREATE TABLE p (id INT, doc TEXT, c MEDIUMTEXT COMPRESSED, n INT, len INT AS (LENGTH(doc)) VIRTUAL, head CHAR(3) AS (LEFT(doc, 3)) STORED, KEY (len), PRIMARY KEY (id, n)) ENGINE=$ENGINE PARTITION BY HASH (n) PARTITIONS 3;
CREATE TABLE log (id INT, was TEXT, now TEXT) ENGINE=$ENGINE;
CREATE TRIGGER p_changes AFTER UPDATE ON p FOR EACH ROW INSERT INTO log VALUES (NEW.id, MD5(OLD.doc), MD5(NEW.doc));
INSERT INTO p (id, doc, c, n) SELECT seq, REPEAT(CHAR(97 + seq), seq * 900), REPEAT('z', seq * 3000), seq FROM seq_1_to_20;
SELECT id, n, len, head FROM p ORDER BY id;
-- A row that moves to another partition takes all with it.
UPDATE p SET n = n + 1 WHERE id > 10;
UPDATE p SET doc = CONCAT(doc, doc) WHERE id = 3;
SELECT id, n, len, head, MD5(doc), MD5(c) FROM p ORDER BY id;
SELECT * FROM log ORDER BY id;
SELECT id FROM p FORCE INDEX (len) WHERE len > 15000 ORDER BY id;
CHECK TABLE p EXTENDED;
DROP FUNCTION counted;
DROP TABLE p, log;
