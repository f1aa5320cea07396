-- Every type of column, collations, every kind of index, partitions, sequences, and what a
-- definition can say beside.
CREATE DATABASE types CHARACTER SET latin1;
USE types;
SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = '', system_versioning_alter_history = keep;

-- FLOAT has values of six digits: a dump shows no more.
CREATE TABLE numbers (
  id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED,
  b BIGINT, bu BIGINT UNSIGNED, z INT(8) ZEROFILL, bo BOOLEAN, f FLOAT, fd FLOAT(7,2), d DOUBLE, dd DOUBLE(20,6), de DECIMAL(12,4), dm DECIMAL(65,30),
  du DECIMAL(9,0) UNSIGNED, b1 BIT(1), b11 BIT(11), b64 BIT(64),
  KEY (t), UNIQUE (tu, id), KEY (s DESC), KEY (su), KEY (m), KEY (mu DESC), KEY (i, b), KEY (iu), KEY (b DESC, bu), KEY (bu), KEY (z), KEY (f), KEY (fd DESC),
  KEY (d), KEY (dd), KEY (de), KEY (dm DESC), KEY (b11), KEY (b64)
) ENGINE=$ENGINE;
INSERT INTO numbers VALUES
  (1, -128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0, 0, FALSE, -1.5, -12345.67, -1.7976931348623157e308, -1, -99999999.9999,
   -99999999999999999999999999999999999.999999999999999999999999999999, 0, b'0', b'0', b'0'),
  (2, 127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807, 18446744073709551615, 99999999, TRUE, 1e30, 12345.67,
   2.2250738585072014e-308, 1e13, 99999999.9999, 99999999999999999999999999999999999.999999999999999999999999999999, 999999999, b'1', b'11111111111',
   b'1111111111111111111111111111111111111111111111111111111111111111'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.0, 0, -0.0, 0, 0, -0.000000000000000000000000000001, 0, 0, b'1010', x'8000000000000001');
INSERT INTO numbers (id, t, i, b, f, d, de, b64) SELECT seq, seq, -seq * 77777, seq * 1234567890123, seq / 4, 1 / seq, seq / 7, seq * 97 FROM seq_5_to_100;

CREATE TABLE times (
  id INT PRIMARY KEY, y YEAR, d DATE, t TIME, t1 TIME(1), t6 TIME(6), dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL,
  ts6 TIMESTAMP(6) NULL, made TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  KEY (y), KEY (d DESC), KEY (t), KEY (t6 DESC), KEY (dt), KEY (dt3), KEY (dt6 DESC), KEY (ts), KEY (ts6 DESC, t1)
) ENGINE=$ENGINE;
INSERT INTO times VALUES
  (1, 1901, '0000-00-00', '-838:59:59', '-838:59:59.9', '-838:59:59.999999', '0000-00-00', '1000-01-01', '0001-01-01', '1970-01-01 00:00:01', '1970-01-01 00:00:01.01', '1970-01-01 00:00:00.000001', '2001-01-01'),
  (2, 2155, '9999-12-31', '838:59:59', '838:59:59.9', '838:59:59.999999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '2038-01-19 03:14:07.99', '2038-01-19 03:14:07.999999', '2002-02-02'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2003-03-03'),
  (4, 0, '2024-02-29', '0:0:0', '-0:0:0.1', '-0:0:0.000001', '2024-00-00', '2023-02-00', '2024-02-29 12:34:56.654321', '2024-03-31 02:30:00', '2024-10-27 02:30:00', '2000-01-01', '2004-04-04.5');
INSERT INTO times (id, y, d, t, dt6, ts6) SELECT seq, 1900 + seq, '2000-01-01' + INTERVAL seq * 41 DAY, SEC_TO_TIME(seq * 1000 - 5000),
  '2000-01-01' + INTERVAL seq * 7919 SECOND_MICROSECOND, '2000-01-01' + INTERVAL seq * 131071 SECOND FROM seq_5_to_100;

CREATE TABLE strings (
  id INT PRIMARY KEY, c CHAR(10), c0 CHAR(0), v VARCHAR(30), vl VARCHAR(2000), b BINARY(4), vb VARBINARY(30), tt TINYTEXT, te TEXT, mt MEDIUMTEXT, lt LONGTEXT,
  tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB, js JSON, e ENUM('', 'a', 'ü', 'z''z'), st SET('p', 'q', 'rß'), vc VARCHAR(500) COMPRESSED, tc TEXT COMPRESSED,
  u UUID, i6 INET6, i4 INET4,
  KEY (c), KEY (c(3) DESC), KEY (v), KEY (vl(100)), KEY (b DESC), KEY (vb), KEY (vb(2)), KEY (tt(5)), KEY (te(20) DESC), KEY (tb(5)), KEY (bl(20)), KEY (e), KEY (st DESC),
  UNIQUE KEY whole (lt), KEY (u), KEY (i6 DESC), KEY (i4)
) ENGINE=$ENGINE CHARACTER SET utf8mb4;
INSERT INTO strings VALUES
  (1, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '{}', '', '', '', '', '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0'),
  (2, 'char', '', ' v\\''"\n\r\0\Z\t', REPEAT('ä', 2000), 'a\0b', x'00ff27225c0a0d1a', 'tiny', REPEAT('text ', 9000), REPEAT('m', 70000), REPEAT('日本', 100000),
   x'00', x'ff00', REPEAT(x'00ff', 40000), REPEAT(x'deadbeef', 100000), '{"a": [1, 2.5, "x\\"y", null]}', 'ü', 'p,rß', REPEAT('comp', 100), REPEAT('ress', 5000),
   '123e4567-e89b-12d3-a456-426655440000', '2001:db8::ff00:42:8329', '192.168.0.1'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, '😀', '', 'NULL', '\\N', x'ffffffff', x'', '--', '/* no comment */', '; DROP TABLE x', '`', '%', '_', x'1a', x'0a', '"s"', 'z''z', '', ' ', '  ',
   'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:1.2.3.4', '255.255.255.255');
INSERT INTO strings (id, c, v, vl, vb, te, lt, bl, u) SELECT seq, CHAR(97 + seq MOD 26), CONCAT('v', seq), REPEAT(CHAR(65 + seq MOD 26), seq * 9), UNHEX(MD5(seq)),
  REPEAT(seq, seq), REPEAT(MD5(seq), seq * 20), REPEAT(UNHEX(MD5(seq)), seq * 10), CONCAT('00000000-0000-1000-8000-', LPAD(seq, 12, '0')) FROM seq_5_to_100;

CREATE TABLE collations (
  id INT PRIMARY KEY, l1 VARCHAR(40) COLLATE latin1_german2_ci, lb VARCHAR(40) COLLATE latin1_bin, l2 VARCHAR(40) CHARACTER SET latin2, cz CHAR(40) CHARACTER SET latin2 COLLATE latin2_czech_cs,
  c1 VARCHAR(40) CHARACTER SET cp1251, k8 VARCHAR(40) CHARACTER SET koi8r, gr VARCHAR(40) CHARACTER SET greek, he VARCHAR(40) CHARACTER SET hebrew, th VARCHAR(40) CHARACTER SET tis620,
  sj VARCHAR(40) CHARACTER SET sjis, uj VARCHAR(40) CHARACTER SET ujis, gb VARCHAR(40) CHARACTER SET gbk, b5 VARCHAR(40) CHARACTER SET big5, ek CHAR(40) CHARACTER SET euckr,
  u2 VARCHAR(40) CHARACTER SET ucs2, u16 VARCHAR(40) CHARACTER SET utf16, ule CHAR(40) CHARACTER SET utf16le, u32 TEXT CHARACTER SET utf32,
  u3 VARCHAR(40) CHARACTER SET utf8mb3, ge VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, un CHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci,
  bi VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, nb VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, no VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_nopad_ci,
  sw TINYTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_swedish_ci, ai VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci, cs VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_cs,
  KEY (l1), KEY (lb DESC), KEY (l2(5)), KEY (cz), KEY (c1), KEY (k8 DESC), KEY (gr), KEY (he), KEY (th), KEY (sj), KEY (uj), KEY (gb(7)), KEY (b5), KEY (ek), KEY (u2), KEY (u16 DESC),
  KEY (ule), KEY (u32(6)), KEY (u3), KEY (ge, un), KEY (un DESC), KEY (bi), KEY (nb), KEY (no), KEY (sw(9)), KEY (ai DESC), KEY (cs, l1(3))
) ENGINE=$ENGINE;
INSERT INTO collations (id, l1, l2, cz, c1, k8, gr, he, th, sj, uj, gb, b5, ek, ge) VALUES
  (1, 'straße', 'žluťoučký', 'kůň', 'Привет', 'мир', 'Ελλάδα', 'שלום', 'สวัสดี', '日本', '東京', '中文', '臺灣', '한국', 'Straße 😀'),
  (2, 'STRASSE ', 'Zlutoucky', 'chata', 'привет ', 'МИР', 'ελλάδα', 'א', 'ไทย', 'ひらがな', 'カタカナ', '汉字', '字', '글', 'STRASSE'),
  (3, '', '', '', '', '', '', '', '', '', '', '', '', '', ''), (4, ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', 'é\t'),
  (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (6, 'Ä', 'hrad', 'hrad', 'Ё', 'ё', 'Ω', 'ת', 'ฮ', '表', '表', '啊', '功', '가', 'Ä');
UPDATE collations SET lb = l1, u2 = c1, u16 = ge, ule = gr, u32 = ge, u3 = l2, un = ge, bi = ge, nb = ge, no = ge, sw = ge, ai = ge, cs = ge;

CREATE TABLE shapes (id INT PRIMARY KEY, g GEOMETRY, p POINT, l LINESTRING, po POLYGON, mp MULTIPOINT, ml MULTILINESTRING, mo MULTIPOLYGON, gc GEOMETRYCOLLECTION) ENGINE=$ENGINE;
INSERT INTO shapes VALUES (1, ST_GeomFromText('POINT(1 2)', 4326), POINT(-1.5, 1e10), ST_GeomFromText('LINESTRING(0 0, 1 1, 2 0)'),
  ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))'), ST_GeomFromText('MULTIPOINT(0 0, 9 9)'),
  ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))'), ST_GeomFromText('MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))'), ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))')),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Definitions that a dump has to carry over.
CREATE TABLE counters (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=$ENGINE AUTO_INCREMENT=1000000000000;
INSERT INTO counters (a) SELECT seq FROM seq_1_to_10;
DELETE FROM counters WHERE a > 5;
CREATE TABLE second_part (g INT NOT NULL, n INT NOT NULL AUTO_INCREMENT, PRIMARY KEY (n, g), KEY (g)) ENGINE=$ENGINE;
INSERT INTO second_part (g) SELECT seq MOD 3 FROM seq_1_to_20;
CREATE TABLE hidden (a INT INVISIBLE DEFAULT 7, b INT, c VARCHAR(10) INVISIBLE, KEY (a)) ENGINE=$ENGINE;
INSERT INTO hidden (a, b, c) VALUES (1, 2, 'x'), (NULL, 3, NULL);
INSERT INTO hidden (b) VALUES (4);
CREATE TABLE no_key (a INT, b TEXT) ENGINE=$ENGINE COMMENT='it''s a "comment"';
INSERT INTO no_key SELECT seq MOD 3, 'the same' FROM seq_1_to_30;
CREATE TABLE `odd ``name.ü` (`a b` INT PRIMARY KEY COMMENT 'col;', `select` INT DEFAULT (1 + 1), `ß` VARCHAR(5) DEFAULT '''', KEY `key ``1` (`select`, `ß`)) ENGINE=$ENGINE;
INSERT INTO `odd ``name.ü` (`a b`) VALUES (1), (2);
CREATE TABLE generated (id INT PRIMARY KEY, a INT, b VARCHAR(20), v INT AS (a * 2) VIRTUAL, p VARCHAR(30) AS (CONCAT(b, '-', a)) PERSISTENT, h INT AS (a + 1) VIRTUAL INVISIBLE,
  UNIQUE (v), KEY (p), KEY (h DESC, v), CHECK (a < 1000), CONSTRAINT named CHECK (LENGTH(b) < 20)) ENGINE=$ENGINE;
INSERT INTO generated (id, a, b) SELECT seq, seq * 3, CONCAT('b', seq) FROM seq_1_to_50;
CREATE TABLE instant (id INT PRIMARY KEY, a INT) ENGINE=$ENGINE;
INSERT INTO instant SELECT seq, seq FROM seq_1_to_20;
ALTER TABLE instant ADD COLUMN b VARCHAR(10) DEFAULT 'later' FIRST, ADD COLUMN c INT DEFAULT 5;
ALTER TABLE instant RENAME COLUMN a TO renamed, ALTER COLUMN c SET DEFAULT 6, COMMENT 'changed at once', ALGORITHM=INSTANT;
INSERT INTO instant (id) VALUES (99);
CREATE TABLE long_unique (id INT PRIMARY KEY, a TEXT, b BLOB, UNIQUE (a), UNIQUE (b, id)) ENGINE=$ENGINE;
INSERT INTO long_unique SELECT seq, REPEAT(seq, 1000), REPEAT(seq, 500) FROM seq_1_to_20;
CREATE TABLE wide_key (a VARCHAR(200), b VARCHAR(200), c VARBINARY(200), d BIGINT, PRIMARY KEY (c, d DESC, a(20)), UNIQUE KEY (b DESC, d), KEY (a, b(10) DESC, d)) ENGINE=$ENGINE CHARACTER SET utf8mb4;
INSERT INTO wide_key SELECT REPEAT('é', seq), CONCAT('b', seq MOD 10), UNHEX(SHA1(seq)), -seq FROM seq_1_to_60;
CREATE TABLE booking (room INT, starts DATE, ends DATE, PERIOD FOR stay (starts, ends), PRIMARY KEY (room, stay WITHOUT OVERLAPS)) ENGINE=$ENGINE;
INSERT INTO booking VALUES (1, '2024-01-01', '2024-01-05'), (1, '2024-01-05', '2024-02-01'), (2, '2024-01-03', '2024-01-04');
CREATE TABLE versioned (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=$ENGINE WITH SYSTEM VERSIONING;
INSERT INTO versioned SELECT seq, seq FROM seq_1_to_10;
UPDATE versioned SET a = -a WHERE id > 5;
DELETE FROM versioned WHERE id = 3;

CREATE TABLE by_hash (id INT, a VARCHAR(20), PRIMARY KEY (id), KEY (a)) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 4;
CREATE TABLE by_key (id INT AUTO_INCREMENT, a VARCHAR(20), PRIMARY KEY (id, a)) ENGINE=$ENGINE PARTITION BY KEY (a) PARTITIONS 3;
CREATE TABLE by_range (id INT, a VARCHAR(20), KEY (id)) ENGINE=$ENGINE PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (10) COMMENT = 'few', PARTITION p1 VALUES LESS THAN (50), PARTITION p2 VALUES LESS THAN MAXVALUE);
CREATE TABLE by_list (id INT, a VARCHAR(20), UNIQUE (id)) ENGINE=$ENGINE PARTITION BY LIST (id MOD 3)
  (PARTITION zero VALUES IN (0), PARTITION other VALUES IN (1, 2), PARTITION nothing VALUES IN (NULL));
CREATE TABLE by_columns (a DATE, b VARCHAR(20), KEY (a DESC)) ENGINE=$ENGINE PARTITION BY RANGE COLUMNS (a, b)
  (PARTITION p0 VALUES LESS THAN ('2010-01-01', 'm'), PARTITION p1 VALUES LESS THAN (MAXVALUE, MAXVALUE));
INSERT INTO by_hash SELECT seq, CONCAT('a', seq) FROM seq_1_to_99;
INSERT INTO by_key (a) SELECT CONCAT('a', seq MOD 10) FROM seq_1_to_50;
INSERT INTO by_range SELECT seq, CONCAT('a', seq) FROM seq_1_to_99;
INSERT INTO by_list SELECT seq, CONCAT('a', seq) FROM seq_1_to_99;
INSERT INTO by_columns SELECT '2009-11-20' + INTERVAL seq DAY, CHAR(97 + seq MOD 26) FROM seq_1_to_99;

CREATE SEQUENCE plain ENGINE=$ENGINE;
CREATE SEQUENCE odd START WITH 100 INCREMENT BY -7 MINVALUE -1000 MAXVALUE 200 CACHE 5 CYCLE ENGINE=$ENGINE;
SELECT NEXTVAL(plain), NEXTVAL(plain), NEXTVAL(odd);
-- Not as a DEFAULT: a dump locks the table that it fills, and the server then does not take values
-- from a sequence, whatever the engine.
CREATE TABLE numbered (id BIGINT PRIMARY KEY, a INT) ENGINE=$ENGINE;
INSERT INTO numbered VALUES (NEXTVAL(plain), 1), (NEXTVAL(plain), 2), (NEXTVAL(odd), 3);
CREATE VIEW small AS SELECT id, t, de FROM numbers WHERE t < 50;
