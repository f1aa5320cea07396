-- Run on two schemas of one server: one with tables of its own, one with the same tables in two
-- parts on two other servers.
INSERT INTO account SELECT seq, CONCAT('owner ', seq MOD 300), seq MOD 7, seq * 1.25, '2000-01-01' + INTERVAL seq DAY, IF(seq MOD 5, REPEAT('n', seq MOD 90), NULL) FROM seq_1_to_2000;
INSERT INTO movement SELECT seq, seq * 13 MOD 2000 + 1, CAST(seq MOD 41 AS SIGNED) - 20, '2024-01-01' + INTERVAL seq MINUTE FROM seq_1_to_6000;

-- Points.
SELECT * FROM account WHERE id = 1;
SELECT * FROM account WHERE id = 2;
SELECT * FROM account WHERE id IN (3, 77, 1998, 5000) ORDER BY id;
SELECT id FROM account WHERE id = 4711;
SELECT id, amount, at FROM movement WHERE account = 14 AND id = 1;
SELECT id, owner FROM account WHERE owner = 'owner 17' ORDER BY id;

-- Ranges.
SELECT id, owner, balance FROM account WHERE id BETWEEN 995 AND 1010 ORDER BY id;
SELECT id FROM account WHERE id > 1990 ORDER BY id DESC;
SELECT id, balance FROM account WHERE region = 3 AND balance > 2400 ORDER BY balance DESC, id LIMIT 10;
SELECT id, owner FROM account WHERE owner LIKE 'owner 29%' ORDER BY owner, id LIMIT 15;
SELECT account, id, amount FROM movement WHERE at >= '2024-01-05' AND at < '2024-01-05 00:10' ORDER BY at, id;
SELECT id FROM account WHERE note IS NULL AND id < 60 ORDER BY id;
SELECT id FROM account ORDER BY opened LIMIT 5 OFFSET 1200;

-- Aggregates.
SELECT COUNT(*), SUM(balance), MIN(id), MAX(id), AVG(balance), COUNT(note) FROM account;
SELECT region, COUNT(*), SUM(balance), MAX(owner) FROM account GROUP BY region ORDER BY region;
SELECT owner, COUNT(*) AS n FROM account GROUP BY owner HAVING n > 6 AND owner < 'owner 12' ORDER BY owner;
SELECT COUNT(DISTINCT owner), COUNT(DISTINCT region) FROM account WHERE balance > 100;
SELECT DATE(at) AS day, SUM(amount) FROM movement GROUP BY day ORDER BY day;
SELECT MAX(at) FROM movement WHERE account = 27;

-- Joins.
SELECT a.id, a.owner, COUNT(*), SUM(m.amount) FROM account a JOIN movement m ON m.account = a.id WHERE a.id < 20 GROUP BY a.id, a.owner ORDER BY a.id;
SELECT a.region, SUM(m.amount) FROM account a JOIN movement m ON m.account = a.id GROUP BY a.region ORDER BY a.region;
SELECT a.id FROM account a LEFT JOIN movement m ON m.account = a.id AND m.amount > 19 WHERE m.id IS NULL AND a.id < 12 ORDER BY a.id;
SELECT s.seq, a.owner FROM seq_1_to_5 s JOIN account a ON a.id = s.seq * 100 ORDER BY s.seq;
SELECT id FROM account WHERE id IN (SELECT account FROM movement WHERE amount = 20 AND id < 400) ORDER BY id;
SELECT a.id, b.id FROM account a JOIN account b ON b.id = a.id + 1 WHERE a.id BETWEEN 40 AND 44 ORDER BY a.id;

-- Changes, and what was changed.
INSERT INTO account VALUES (3001, 'new', 1, 10, '2024-01-01', 'x'), (3002, 'new', 2, 20, NULL, NULL);
INSERT INTO account VALUES (3001, 'twice', 1, 10, NULL, NULL);
INSERT IGNORE INTO account VALUES (3002, 'ignored', 1, 10, NULL, NULL), (3003, 'new', 3, 30, NULL, '');
SELECT * FROM account WHERE id > 3000 ORDER BY id;
UPDATE account SET balance = balance + 1 WHERE id = 10;
UPDATE account SET balance = balance + 1, note = CONCAT('r', region) WHERE region = 4;
UPDATE account SET owner = CONCAT(owner, '!') WHERE id BETWEEN 500 AND 520;
UPDATE account SET id = id + 10000 WHERE id IN (3001, 3002);
SELECT COUNT(*), SUM(balance), SUM(LENGTH(owner)), SUM(LENGTH(note)) FROM account;
SELECT id, owner FROM account WHERE id > 10000 ORDER BY id;
DELETE FROM account WHERE id = 11;
DELETE FROM account WHERE owner = 'owner 250';
DELETE FROM movement WHERE at < '2024-01-01 10:00';
UPDATE account SET balance = balance * 2 ORDER BY id DESC LIMIT 3;
DELETE FROM movement ORDER BY account, id LIMIT 4;
UPDATE account a JOIN movement m ON m.account = a.id SET a.balance = a.balance - m.amount WHERE m.id = 1001;
DELETE m FROM movement m JOIN account a ON m.account = a.id WHERE a.region = 6 AND m.amount < -10;
REPLACE INTO account VALUES (12, 'replaced', 5, 5, NULL, 'r'), (90000, 'replaced', 5, 5, NULL, 'r');
INSERT INTO account VALUES (12, 'again', 5, 7, NULL, NULL) ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance);
SELECT COUNT(*), SUM(balance), SUM(LENGTH(owner)), SUM(LENGTH(note)) FROM account;
SELECT COUNT(*), SUM(amount), SUM(id) FROM movement;

-- Transactions.
BEGIN;
UPDATE account SET balance = balance - 100 WHERE id = 101;
UPDATE account SET balance = balance + 100 WHERE id = 102;
INSERT INTO movement VALUES (70000, 101, -100, '2025-01-01'), (70001, 102, 100, '2025-01-01');
SELECT id, balance FROM account WHERE id IN (101, 102) ORDER BY id;
COMMIT;
BEGIN;
UPDATE account SET balance = 0 WHERE id BETWEEN 100 AND 110;
DELETE FROM movement WHERE account BETWEEN 100 AND 110;
SELECT SUM(balance) FROM account WHERE id BETWEEN 100 AND 110;
ROLLBACK;
SELECT id, balance FROM account WHERE id BETWEEN 100 AND 110 ORDER BY id;
SELECT COUNT(*), SUM(amount) FROM movement WHERE account BETWEEN 100 AND 110;
BEGIN;
SELECT id, balance FROM account WHERE id IN (201, 202) ORDER BY id FOR UPDATE;
UPDATE account SET balance = balance + IF(id = 201, -50, 50) WHERE id IN (201, 202);
COMMIT;
SELECT id, balance FROM account WHERE id IN (201, 202) ORDER BY id;

-- Across both parts, in two phases that the client commands.
XA START 'one';
UPDATE account SET balance = balance - 7 WHERE id = 301;
UPDATE account SET balance = balance + 7 WHERE id = 302;
INSERT INTO movement VALUES (80000, 301, -7, '2025-01-02'), (80001, 302, 7, '2025-01-02');
XA END 'one';
XA PREPARE 'one';
XA COMMIT 'one';
XA START 'two';
UPDATE account SET balance = 0;
XA END 'two';
XA PREPARE 'two';
XA ROLLBACK 'two';
XA START 'three';
DELETE FROM account WHERE id BETWEEN 301 AND 302;
XA END 'three';
XA COMMIT 'three' ONE PHASE;
SELECT id, balance FROM account WHERE id BETWEEN 299 AND 304 ORDER BY id;
SELECT COUNT(*), SUM(balance) FROM account;
SELECT id, account, amount FROM movement WHERE id >= 70000 ORDER BY id;
