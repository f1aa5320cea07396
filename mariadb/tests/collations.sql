SET NAMES utf8mb4;
CREATE TABLE t (id INT PRIMARY KEY, g VARCHAR(30) COLLATE utf8mb4_general_ci, u VARCHAR(30) COLLATE utf8mb4_unicode_ci,
  b VARCHAR(30) COLLATE utf8mb4_bin, n VARCHAR(30) COLLATE utf8mb4_nopad_bin, l VARCHAR(30) CHARACTER SET latin1,
  c CHAR(30) COLLATE utf8mb4_general_ci, un VARCHAR(30) COLLATE utf8mb4_unicode_nopad_ci, s VARCHAR(30) COLLATE utf8mb4_swedish_ci,
  a VARCHAR(30) COLLATE utf8mb4_uca1400_ai_ci, x VARCHAR(30) COLLATE utf8mb4_uca1400_as_cs,
  KEY (g), KEY (u), KEY (b), KEY (n), KEY (l), KEY (c), KEY (un), KEY (s), KEY (a), KEY (x), KEY gp (g(3)), KEY up (u(3))) ENGINE=$ENGINE;
INSERT INTO t (id, g) VALUES (1, 'a'), (2, 'A '), (3, 'ab'), (4, 'a\t'), (5, ''), (6, 'abcdefghijklmnop'), (7, 'abcdefghijklmnop   '),
  (8, 'ABCDEFGHIJKLMNO'), (9, 'abcdefghijklmno\t'), (10, 'z'), (11, 'ä'), (12, 'Äpfel'), (13, 'apfel'), (14, '   '), (15, 'straße'),
  (16, 'strasse'), (17, 'é'), (18, 'e'), (19, 'E!'), (20, 'abcdefg'), (21, 'abcdefgh'), (22, 'abcdefghi'), (23, 'ö'), (24, 'o');
UPDATE t SET u = g, b = g, n = g, l = g, c = g, un = g, s = g, a = g, x = g;
SELECT id, g FROM t FORCE INDEX (g) ORDER BY g, id;
SELECT id, u FROM t FORCE INDEX (u) ORDER BY u, id;
SELECT id, b FROM t FORCE INDEX (b) ORDER BY b, id;
SELECT id, n FROM t FORCE INDEX (n) ORDER BY n, id;
SELECT id, l FROM t FORCE INDEX (l) ORDER BY l, id;
SELECT id, c FROM t FORCE INDEX (c) ORDER BY c, id;
SELECT id, un FROM t FORCE INDEX (un) ORDER BY un, id;
SELECT id, s FROM t FORCE INDEX (s) ORDER BY s, id;
SELECT id, a FROM t FORCE INDEX (a) ORDER BY a, id;
SELECT id, x FROM t FORCE INDEX (x) ORDER BY x, id;
SELECT id FROM t FORCE INDEX (g) WHERE g = 'A' ORDER BY id;
SELECT id FROM t FORCE INDEX (g) WHERE g > 'a' AND g < 'b' ORDER BY id;
SELECT id FROM t FORCE INDEX (g) WHERE g < 'a' ORDER BY id;
SELECT id FROM t FORCE INDEX (u) WHERE u = 'strasse' ORDER BY id;
SELECT id FROM t FORCE INDEX (u) WHERE u LIKE 'a%' ORDER BY id;
SELECT id FROM t FORCE INDEX (b) WHERE b = 'a' ORDER BY id;
SELECT id FROM t FORCE INDEX (n) WHERE n = 'A' ORDER BY id;
SELECT id FROM t FORCE INDEX (c) WHERE c = 'abcdefghijklmnop' ORDER BY id;
SELECT id FROM t FORCE INDEX (un) WHERE un = 'a' ORDER BY id;
SELECT id FROM t FORCE INDEX (gp) WHERE g = 'abcdefgh' ORDER BY id;
SELECT id FROM t FORCE INDEX (up) WHERE u LIKE 'abcdefgh%' ORDER BY id;
SELECT id FROM t FORCE INDEX (x) WHERE x = 'a' ORDER BY id;
SELECT g, COUNT(*) FROM t FORCE INDEX (g) GROUP BY g ORDER BY g;
CREATE TABLE p (k VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT, KEY (v)) ENGINE=$ENGINE;
INSERT INTO p VALUES ('a', 1), ('B', 2), ('ä2', 3), ('c', 4);
INSERT INTO p VALUES ('A', 5);
INSERT INTO p VALUES ('b  ', 6);
SELECT * FROM p;
SELECT k FROM p FORCE INDEX (v) WHERE v > 1 ORDER BY v;
UPDATE p SET k = 'b' WHERE k = 'B';
SELECT k, v FROM p FORCE INDEX (v) ORDER BY v;
DELETE FROM p WHERE k = 'b';
SELECT * FROM p ORDER BY k DESC;
CREATE TABLE z (k VARBINARY(20) PRIMARY KEY, t TEXT, UNIQUE (t(10))) ENGINE=$ENGINE;
INSERT INTO z VALUES (x'', 'a'), (x'00', 'b'), (x'0000', 'c'), (x'00ff', 'd'), (x'01', 'e'), (x'ff', 'ffffffffffff');
INSERT INTO z VALUES (x'02', 'FFFFFFFFFFgg');
SELECT HEX(k), t FROM z ORDER BY k;
SELECT HEX(k), t FROM z ORDER BY k DESC;
SELECT HEX(k) FROM z WHERE k > x'00' ORDER BY k;
SELECT HEX(k) FROM z WHERE t = 'c';
-- Spaces at the end do not count, also where the collation has weights for them.
CREATE TABLE sp (id INT PRIMARY KEY, c VARCHAR(20) CHARACTER SET cp1250 COLLATE cp1250_czech_cs,
  l VARCHAR(20) CHARACTER SET latin2 COLLATE latin2_czech_cs, t TEXT CHARACTER SET cp1250 COLLATE cp1250_czech_cs,
  KEY (c), KEY (l), KEY (t(6)), KEY (l(3))) ENGINE=$ENGINE;
INSERT INTO sp VALUES (1, 'a', 'a', 'a'), (2, 'a ', 'a ', 'a '), (3, 'a  ', 'a  ', 'a  '), (4, 'ab', 'ab', 'ab'), (5, '', '', ''), (6, ' ', ' ', ' '),
  (7, 'ch', 'ch', 'ch'), (8, 'ch ', 'ch ', 'ch '), (9, ' a', ' a', ' a');
SELECT id FROM sp FORCE INDEX (c) WHERE c = 'a ' ORDER BY id;
SELECT id FROM sp FORCE INDEX (l) WHERE l = 'a' ORDER BY id;
SELECT id FROM sp FORCE INDEX (l_2) WHERE l = 'ch' ORDER BY id;
SELECT id FROM sp FORCE INDEX (t) WHERE t = 'a   ' ORDER BY id;
SELECT id FROM sp FORCE INDEX (c) WHERE c > '' AND c < 'b' ORDER BY id;
SELECT COUNT(*) FROM sp x JOIN sp y FORCE INDEX (c) ON x.c = y.c;
DELETE FROM sp WHERE id IN (2, 3, 6, 8);
ALTER TABLE sp ADD UNIQUE (c);
INSERT INTO sp VALUES (2, 'a ', 'a', 'a');
CHECK TABLE sp EXTENDED;
DROP TABLE sp;
