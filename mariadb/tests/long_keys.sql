-- Text whose characters have several weights each: all of them count, also
-- in values of full length.
SET NAMES utf8mb4;
CREATE TABLE e (v VARCHAR(4) COLLATE utf8mb4_unicode_ci, l VARCHAR(4) CHARACTER SET latin1 COLLATE latin1_german2_ci, UNIQUE (v), UNIQUE (l), KEY p (v(2))) ENGINE=$ENGINE;
INSERT INTO e VALUES ('ßßßß', 'ßßßß');
INSERT INTO e VALUES ('ssss', 'ssss');
INSERT INTO e VALUES ('ßßßs', 'ßßßs');
INSERT INTO e VALUES ('ßß', NULL);
INSERT INTO e VALUES (NULL, 'ßß');
INSERT INTO e VALUES ('ßßs', 'äääa');
SELECT v FROM e FORCE INDEX (v) WHERE v >= '' ORDER BY v;
SELECT v FROM e FORCE INDEX (v) WHERE v = 'ßß';
SELECT COUNT(*) FROM e FORCE INDEX (p) WHERE v LIKE 'ßßß%';
SELECT l FROM e FORCE INDEX (l) WHERE l > 's' ORDER BY l;
CREATE TABLE n (v TEXT COLLATE utf8mb4_unicode_nopad_ci, UNIQUE (v(10))) ENGINE=$ENGINE;
INSERT INTO n VALUES (REPEAT('ß', 10)), (CONCAT(REPEAT('ß', 9), 's')), (REPEAT('s', 10)), (REPEAT('ß', 5)) ;
INSERT INTO n VALUES (REPEAT('ß', 10)), (CONCAT(REPEAT('ß', 9), 's')), (REPEAT('s', 10)), (CONCAT(REPEAT('ß', 4), 's'));
INSERT INTO n VALUES (CONCAT(REPEAT('ß', 11), 'x'));
SELECT v FROM n ORDER BY v;
-- Collations of several levels.
CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(255) COLLATE uca1400_as_cs, w VARCHAR(20) COLLATE uca1400_nopad_as_cs, UNIQUE (v), KEY (w)) ENGINE=$ENGINE;
INSERT INTO x VALUES (1, REPEAT('ß', 255), 'ß'), (2, REPEAT('s', 255), 'ss '), (3, CONCAT(REPEAT('s', 254), 'S'), 'ss'), (4, REPEAT('ﷺ', 255), 'ﷺ'),
  (5, 'resume', 'resume'), (6, 'Resume', 'Resume'), (7, 'résumé', 'résumé'), (8, 'resumé', 'resumé'), (9, 'resumes', 'resume '), (10, '', '');
INSERT INTO x VALUES (11, 'Resume  ', 'z');
SELECT id FROM x FORCE INDEX (v) ORDER BY v;
SELECT id FROM x FORCE INDEX (w) ORDER BY w;
SELECT id FROM x FORCE INDEX (v) WHERE v > 'resume' AND v < 'S' ORDER BY v;
SELECT id, LENGTH(v) FROM x FORCE INDEX (v) WHERE v LIKE 's%' ORDER BY id;
-- Keys that are cut: they are found and unique as others are.
CREATE TABLE b (id INT PRIMARY KEY, v VARBINARY(3072), KEY (v)) ENGINE=$ENGINE;
INSERT INTO b VALUES (1, REPEAT('\0', 3072)), (2, CONCAT(REPEAT('\0', 3071), 'a')), (3, CONCAT(REPEAT('\0', 3070), 'aa')), (4, REPEAT('\0', 3071)), (5, REPEAT('\0', 2047)),
  (6, CONCAT(REPEAT('\0', 2040), 'x')), (7, 'x'), (8, '');
SELECT id, LENGTH(v) FROM b FORCE INDEX (v) WHERE v >= '\0' ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v = REPEAT('\0', 3072);
SELECT id FROM b FORCE INDEX (v) WHERE v > REPEAT('\0', 3072) ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v < CONCAT(REPEAT('\0', 3070), 'aa') ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v <= CONCAT(REPEAT('\0', 3070), 'aa') ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v BETWEEN REPEAT('\0', 3071) AND CONCAT(REPEAT('\0', 3071), 'a') ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v BETWEEN REPEAT('\0', 3071) AND CONCAT(REPEAT('\0', 3071), 'a') AND LENGTH(v) > 3071 ORDER BY id;
SELECT id FROM b FORCE INDEX (v) WHERE v IN (REPEAT('\0', 3072), CONCAT(REPEAT('\0', 3071), 'a'), 'x') ORDER BY id;
UPDATE b SET v = CONCAT(v, 'b') WHERE v < '\0\0' OR v = REPEAT('\0', 2047);
DELETE FROM b WHERE v = REPEAT('\0', 3071);
SELECT id, LENGTH(v) FROM b FORCE INDEX (v) WHERE v < 'x' ORDER BY id;
ALTER TABLE b ADD UNIQUE u (v), ALGORITHM=COPY;
INSERT INTO b VALUES (20, CONCAT(REPEAT('\0', 3071), 'a'));
ALTER TABLE b DROP KEY u, ADD n INT, ALGORITHM=COPY;
CHECK TABLE b;
CREATE TABLE u (v VARCHAR(768) COLLATE utf8mb4_unicode_ci, UNIQUE (v)) ENGINE=$ENGINE;
INSERT INTO u VALUES (REPEAT('ﷺ', 768)), (CONCAT(REPEAT('ﷺ', 767), 'a')), (REPEAT('ß', 768));
INSERT INTO u VALUES (REPEAT('ﷺ', 768));
INSERT INTO u VALUES (CONCAT(REPEAT('ﷺ', 767), 'A'));
SELECT COUNT(*), SUM(LENGTH(v)) FROM u;
SELECT LENGTH(v) FROM u WHERE v = CONCAT(REPEAT('ﷺ', 767), 'A');
-- Long keys together with long primary keys; keys of several columns of which the first is cut.
CREATE TABLE p (a VARBINARY(3072) PRIMARY KEY, b VARBINARY(3000), KEY (b)) ENGINE=$ENGINE;
INSERT INTO p VALUES (REPEAT('a', 3072), REPEAT('b', 3000)), (CONCAT(REPEAT('a', 3071), 'b'), REPEAT('b', 3000)), (REPEAT('a', 3071), CONCAT(REPEAT('b', 2999), 'c')), ('', '');
INSERT INTO p VALUES (REPEAT('a', 3072), '');
SELECT RIGHT(a, 1), LENGTH(a), RIGHT(b, 1) FROM p ORDER BY LENGTH(a), RIGHT(a, 1);
SELECT RIGHT(a, 1), LENGTH(a) FROM p FORCE INDEX (b) WHERE b = REPEAT('b', 3000) ORDER BY RIGHT(a, 1);
UPDATE p SET b = 'd' WHERE a = REPEAT('a', 3071);
DELETE FROM p WHERE b = REPEAT('b', 3000) AND a > REPEAT('a', 3072);
SELECT RIGHT(a, 1), LENGTH(a), LENGTH(b) FROM p ORDER BY LENGTH(a);
CHECK TABLE p;
CREATE TABLE m (id INT AUTO_INCREMENT PRIMARY KEY, a VARBINARY(2500), b INT, c VARCHAR(20) COLLATE utf8mb4_unicode_ci, KEY (a, b), KEY d (a DESC, c DESC)) ENGINE=$ENGINE;
INSERT INTO m (a, b, c) SELECT CONCAT(REPEAT('\0', 2499), IF(seq % 2, 'a', 'b')), seq % 5, seq FROM seq_1_to_40;
INSERT INTO m (a, b, c) VALUES (NULL, 1, 'n'), ('short', 2, 's'), (REPEAT('\0', 2049), 3, 'l');
SELECT COUNT(*), MIN(id), MAX(id) FROM m FORCE INDEX (a) WHERE a = CONCAT(REPEAT('\0', 2499), 'a');
SELECT id FROM m FORCE INDEX (a) WHERE a = CONCAT(REPEAT('\0', 2499), 'a') AND b = 3 ORDER BY id;
SELECT id FROM m FORCE INDEX (d) WHERE a = CONCAT(REPEAT('\0', 2499), 'b') AND c > '3' ORDER BY id;
SELECT COUNT(*) FROM m FORCE INDEX (a) WHERE a > CONCAT(REPEAT('\0', 2499), 'a');
SELECT COUNT(*) FROM m FORCE INDEX (d) WHERE a < CONCAT(REPEAT('\0', 2499), 'b');
SELECT COUNT(*) FROM m x JOIN m y FORCE INDEX (a) ON x.a = y.a WHERE x.b = 1;
SELECT COUNT(*) FROM m x JOIN m y FORCE INDEX (a) ON x.a = y.a AND x.b = y.b;
DELETE FROM m WHERE a = CONCAT(REPEAT('\0', 2499), 'a') AND b < 3;
SELECT COUNT(*), SUM(id) FROM m FORCE INDEX (d) WHERE a >= '';
CHECK TABLE m;
