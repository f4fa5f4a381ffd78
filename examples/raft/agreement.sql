-- All nodes apply the same values in the same order. This finds the n-th ones that differ.
WITH applied AS (SELECT process, what, row_number() OVER (PARTITION BY process ORDER BY tick) AS n
                   FROM events WHERE kind = 'reaching-a-label')
SELECT a.n, a.process, a.what, b.process, b.what
  FROM applied a JOIN applied b USING (n) WHERE a.process < b.process AND a.what <> b.what;
