CREATE TABLE account (id INT NOT NULL PRIMARY KEY, owner VARCHAR(40) NOT NULL, region TINYINT NOT NULL, balance DECIMAL(12,2) NOT NULL, opened DATE, note TEXT,
  KEY (owner), KEY (region, balance));
CREATE TABLE movement (id BIGINT NOT NULL, account INT NOT NULL, amount DECIMAL(12,2) NOT NULL, at DATETIME(3) NOT NULL, PRIMARY KEY (account, id), KEY (at));
