CREATE TABLE t (
  id INT PRIMARY KEY, ti TINYINT, ui SMALLINT UNSIGNED, mi MEDIUMINT, bi BIGINT, ub BIGINT UNSIGNED,
  f FLOAT, d DOUBLE, de DECIMAL(12,4), bo BOOLEAN, bt BIT(11), y YEAR, da DATE, tm TIME(3), dt DATETIME(6), ts TIMESTAMP NULL,
  ch CHAR(10), vc VARCHAR(300), bn BINARY(5), vb VARBINARY(20), tx TEXT, bl BLOB, lt LONGTEXT, js JSON,
  en ENUM('x', 'y', 'z'), st SET('p', 'q', 'r'), uu UUID, ip INET6, i4 INET4,
  KEY (ti), KEY (ui), KEY (mi), KEY (bi), KEY (ub), KEY (f), KEY (d), KEY (de), KEY (bt), KEY (y), KEY (da), KEY (tm), KEY (dt),
  KEY (ts), KEY (ch), KEY (vc), KEY (bn), KEY (vb), KEY (tx(20)), KEY (bl(20)), KEY (en), KEY (st), KEY (uu), KEY (ip), KEY (i4)
) ENGINE=$ENGINE;
SET time_zone = '+00:00';
INSERT INTO t VALUES (1, -128, 65535, -8388608, -9223372036854775808, 18446744073709551615, -1.5, -1e300, -12345678.1234, 1,
  b'10101010101', 2024, '1999-12-31', '-838:59:59.999', '2024-02-29 12:34:56.654321', '2001-02-03 04:05:06', 'char', 'varchar', 'ab', x'00ff00',
  'text', 'blob', 'long', '{"a": 1}', 'y', 'p,r', '123e4567-e89b-12d3-a456-426655440000', '2001:db8::ff00:42:8329', '10.0.0.1');
INSERT INTO t VALUES (2, 127, 0, 8388607, 9223372036854775807, 0, 1.5, 1e300, 12345678.1234, 0,
  b'0', 1901, '2030-01-01', '00:00:00.001', '1000-01-01 00:00:00', '2037-01-01 00:00:00', '', '', '', '', '', '', '', '[]', 'x', '',
  '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0');
INSERT INTO t (id) VALUES (3);
INSERT INTO t VALUES (4, 0, 1, 0, 0, 1, 0, -0.0, 0, 1, b'11111111111', 2155, '0000-00-00', '838:59:59.999', '9999-12-31 23:59:59.999999',
  '1970-01-01 00:00:01', 'Char  x', REPEAT('abc', 100), 'ab', x'00ff', REPEAT('t', 70000), REPEAT('b', 60000), REPEAT('l', 300000),
  '"s"', 'z', 'q', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'ffff::', '255.255.255.255');
INSERT IGNORE INTO t VALUES (4, 0, 1, 0, 0, 1, 0, -0.0, 0, 1, b'11111111111', 2155, '2000-00-00', '838:59:59.999', '9999-12-31 23:59:59.999999',
  '1970-01-01 00:00:01', 'Char  x', REPEAT('abc', 100), 'ab', x'00ff', REPEAT('t', 60000), REPEAT('b', 60000), REPEAT('l', 300000),
  '"s"', 'z', 'q', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'ffff::', '255.255.255.255');
SELECT id, ti, ui, mi, bi, ub, f, d, de, bo, HEX(bt), y, da, tm, dt, ts FROM t;
SELECT id, ch, LENGTH(ch), MD5(vc), HEX(bn), HEX(vb), MD5(tx), MD5(bl), MD5(lt), js, en, st, uu, ip, i4 FROM t;
SELECT ti FROM t FORCE INDEX (ti) ORDER BY ti;
SELECT ui FROM t FORCE INDEX (ui) ORDER BY ui;
SELECT mi FROM t FORCE INDEX (mi) ORDER BY mi;
SELECT bi FROM t FORCE INDEX (bi) ORDER BY bi;
SELECT ub FROM t FORCE INDEX (ub) ORDER BY ub;
SELECT f FROM t FORCE INDEX (f) ORDER BY f;
SELECT d FROM t FORCE INDEX (d) ORDER BY d;
SELECT de FROM t FORCE INDEX (de) ORDER BY de;
SELECT HEX(bt) FROM t FORCE INDEX (bt) ORDER BY bt;
SELECT y FROM t FORCE INDEX (y) ORDER BY y;
SELECT da FROM t FORCE INDEX (da) ORDER BY da;
SELECT tm FROM t FORCE INDEX (tm) ORDER BY tm;
SELECT dt FROM t FORCE INDEX (dt) ORDER BY dt;
SELECT ts FROM t FORCE INDEX (ts) ORDER BY ts;
SELECT ch, LENGTH(ch) FROM t FORCE INDEX (ch) ORDER BY ch;
SELECT MD5(vc) FROM t FORCE INDEX (vc) ORDER BY vc;
SELECT HEX(bn) FROM t FORCE INDEX (bn) ORDER BY bn;
SELECT HEX(vb) FROM t FORCE INDEX (vb) ORDER BY vb;
SELECT id FROM t FORCE INDEX (tx) WHERE tx >= 'text';
SELECT id FROM t FORCE INDEX (bl) WHERE bl = 'blob';
SELECT en FROM t FORCE INDEX (en) ORDER BY en;
SELECT st FROM t FORCE INDEX (st) ORDER BY st;
SELECT uu FROM t FORCE INDEX (uu) ORDER BY uu;
SELECT ip FROM t FORCE INDEX (ip) ORDER BY ip;
SELECT i4 FROM t FORCE INDEX (i4) ORDER BY i4;
SELECT id FROM t WHERE ti = -128 AND bi < 0;
SELECT id FROM t FORCE INDEX (ub) WHERE ub > 9223372036854775807;
SELECT id FROM t FORCE INDEX (de) WHERE de < 0;
SELECT id FROM t FORCE INDEX (f) WHERE f = -1.5;
SELECT id FROM t FORCE INDEX (d) WHERE d = 0;
SELECT id FROM t FORCE INDEX (tm) WHERE tm < '00:00:00';
SELECT id FROM t FORCE INDEX (dt) WHERE dt = '2024-02-29 12:34:56.654321';
SELECT id FROM t FORCE INDEX (vb) WHERE vb = x'00ff00';
SELECT id FROM t FORCE INDEX (uu) WHERE uu = '123e4567-e89b-12d3-a456-426655440000';
SELECT id FROM t FORCE INDEX (ip) WHERE ip > '2001::' ORDER BY ip;
SELECT id FROM t FORCE INDEX (bt) WHERE bt = b'10101010101';
UPDATE t SET lt = CONCAT(lt, 'more'), bl = NULL, vc = 'short', ti = NULL WHERE id = 4;
SELECT id, ti, MD5(tx), MD5(bl), MD5(lt), vc FROM t ORDER BY id;
SELECT ti, COUNT(*) FROM t GROUP BY ti;
CHECKSUM TABLE t;
