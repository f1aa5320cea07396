-- An index may have any name that the server allows, also with control characters, which the
-- engine's names cannot have.
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY `two
lines` (a), UNIQUE KEY `tab	and` (b), KEY `C1 x` (b, a)) ENGINE=$ENGINE;
INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 2, 3);
SELECT id FROM t FORCE INDEX (`two
lines`) WHERE a = 2;
SELECT a FROM t FORCE INDEX (`C1 x`) WHERE b = 2;
INSERT INTO t VALUES (4, 4, 1);
SHOW CREATE TABLE t\G
ALTER TABLE t ADD KEY `new
one` (a, b), ALGORITHM=INPLACE;
ALTER TABLE t RENAME KEY `new
one` TO `NEW`, RENAME KEY `tab	and` TO `_`, ALGORITHM=INSTANT;
ALTER TABLE t RENAME KEY `NEW` TO `new	one`;
FLUSH TABLES;
SELECT id FROM t FORCE INDEX (`new	one`) WHERE a = 2 AND b > 2;
SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = 'smoke' ORDER BY index_name, seq_in_index;
ALTER TABLE t ADD v INT DEFAULT 5, ALGORITHM=INSTANT;
ALTER TABLE t FORCE;
CHECK TABLE t;
CREATE TABLE child (id INT PRIMARY KEY, a INT, CONSTRAINT `of
two` FOREIGN KEY `key
of` (a) REFERENCES t (a) ON DELETE CASCADE) ENGINE=$ENGINE;
INSERT INTO child VALUES (1, 2), (2, 1);
INSERT INTO child VALUES (3, 9);
DELETE FROM t WHERE id = 1;
SELECT * FROM child;
SHOW CREATE TABLE child\G
ALTER TABLE child DROP FOREIGN KEY `of
two`, DROP KEY `of
two`;
ALTER TABLE t DROP KEY `two
lines`, DROP KEY `new	one`, ALGORITHM=INPLACE;
RENAME TABLE t TO u;
SHOW CREATE TABLE u\G
CREATE TABLE parts (id INT PRIMARY KEY, a INT, KEY `k
k` (a)) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 2;
INSERT INTO parts VALUES (1, 1), (2, 2);
ALTER TABLE parts ADD KEY `l
l` (a, id), ALGORITHM=INPLACE;
SELECT id FROM parts FORCE INDEX (`l
l`) WHERE a = 2;
-- Each of 64 control characters has four bytes in the engine's name.
EXECUTE IMMEDIATE CONCAT('CREATE TABLE longest (id INT PRIMARY KEY, a INT, KEY `', REPEAT('\b', 64), '` (a)) ENGINE=$ENGINE');
INSERT INTO longest VALUES (1, 2), (2, 1);
SELECT id FROM longest WHERE a = 1;
CHECK TABLE longest;
