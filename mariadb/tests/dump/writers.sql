-- The load beside a dump. What steers it is no part of the dump, nor of the binary log.
SET SESSION sql_log_bin = 0;
CREATE DATABASE control;
CREATE TABLE control.run (go BOOLEAN NOT NULL) ENGINE=$ENGINE;
INSERT INTO control.run VALUES (TRUE);
DELIMITER //
-- Lends and takes back books, takes payments, changes people, each in a transaction of its own,
-- until it is told to stop.
CREATE PROCEDURE control.work(IN session INT) MODIFIES SQL DATA BEGIN
  DECLARE n, who, which INT DEFAULT 0;
  -- The victim of a deadlock starts over with the next round.
  DECLARE CONTINUE HANDLER FOR 1205, 1213 ROLLBACK;
  WHILE (SELECT go FROM control.run) DO
    SET n = n + 1, who = (session * 7919 + n * 31) MOD 995 + 1, which = (session * 104729 + n * 17) MOD 1500 + 1;
    START TRANSACTION;
    CALL library.lend(which, who, '2024-06-01' + INTERVAL n MINUTE);
    INSERT INTO library.payment (person_id, amount, paid_on, note) VALUES (who, n MOD 7 + 0.5, '2017-01-01' + INTERVAL n MOD 4000 DAY, 'at the desk');
    COMMIT;
    START TRANSACTION;
    UPDATE library.loan SET returned_at = lent_at + INTERVAL n MOD 50 DAY WHERE copy_id = which AND returned_at IS NULL;
    UPDATE library.person SET last_name = CONCAT('Writer ', session), settings = JSON_SET(settings, '$.n', n), photo = REPEAT('p', n MOD 3000) WHERE person_id = who;
    INSERT INTO library.journal VALUES (NOW(), 'return', which, NULL);
    COMMIT;
    INSERT INTO types.counters (a) VALUES (n);
    DELETE FROM types.counters ORDER BY id LIMIT 1;
  END WHILE;
END //
DELIMITER ;
