-- A row says by a byte which layout it has. Partitions that were emptied or made anew know fewer
-- layouts than others, and a change that one of them cannot make in place is a copy of all.
CREATE TABLE m (id INT PRIMARY KEY, a INT DEFAULT 1) ENGINE=$ENGINE PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO m (id) VALUES (1), (2), (3);
DELIMITER $$
BEGIN NOT ATOMIC
  FOR i IN 1 .. 134 DO
    EXECUTE IMMEDIATE CONCAT('ALTER TABLE m ADD c', i, ' INT DEFAULT ', i, ' FIRST');
    IF i % 10 <> 0 THEN
      EXECUTE IMMEDIATE CONCAT('ALTER TABLE m DROP c', i);
    END IF;
    INSERT INTO m (id) VALUES (i * 3 + 1), (i * 3 + 2), (i * 3 + 3);
  END FOR;
END$$
DELIMITER ;
ALTER TABLE m TRUNCATE PARTITION p1;
INSERT INTO m (id) VALUES (1);
ALTER TABLE m ADD b INT DEFAULT 2 FIRST;
INSERT INTO m (id) VALUES (1000), (1001), (1002);
ALTER TABLE m ADD d INT DEFAULT 3 AFTER a;
INSERT INTO m (id) VALUES (1003), (1004), (1005);
SELECT COUNT(*), SUM(a), SUM(b), SUM(d) FROM m;
SELECT * FROM m WHERE id IN (1, 2, 3, 150, 1000, 1001, 1002, 1003, 1004) ORDER BY id;
CHECK TABLE m;
