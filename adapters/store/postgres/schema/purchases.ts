/** Sales, their ledger entries, and reviews. */
export const purchases = `
  CREATE TABLE purchases (
    payment_id bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    link_id text COLLATE "C" NOT NULL, -- empty: a payment session without a link
    store_id text COLLATE "C" NOT NULL,
    buyer_wallet text COLLATE "C" NOT NULL,
    network text COLLATE "C" NOT NULL,
    asset text COLLATE "C" NOT NULL,
    symbol text COLLATE "C" NOT NULL,
    decimals bigint NOT NULL,
    amount_atomic text COLLATE "C" NOT NULL,
    fee_atomic text COLLATE "C" NOT NULL,
    price_usd text COLLATE "C" NOT NULL,
    tx_hash text COLLATE "C",
    event text COLLATE "C", -- which transfer of the transaction paid
    status text COLLATE "C" NOT NULL CHECK (
    status = 'settled' OR status = 'delivered' OR status = 'refund_due' OR status = 'refunded' OR status = 'reorged'),
    review_token_hash text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    session_id text COLLATE "C"
  );
  CREATE INDEX purchases_link ON purchases (link_id, created_at_ms, id);
  CREATE INDEX purchases_owed ON purchases (buyer_wallet) WHERE status = 'refund_due';
  CREATE INDEX purchases_store ON purchases (store_id, created_at_ms, id);
  CREATE UNIQUE INDEX purchases_transfer ON purchases
    (network, (CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END), event);
  CREATE INDEX purchases_unusual ON purchases (store_id, status, created_at_ms, id)
    WHERE status NOT IN ('settled', 'delivered');
  -- The sales of links with access, by buyer. Sales of other links are not in the table.
  CREATE TABLE link_buyers (
    link_id text COLLATE "C" NOT NULL,
    wallet text COLLATE "C" NOT NULL, -- EVM addresses in lower case
    at_ms bigint NOT NULL,
    payment_id bigint NOT NULL,
    PRIMARY KEY (link_id, wallet, at_ms, payment_id)
  );
  CREATE TABLE ledger (
    purchase_id text COLLATE "C" NOT NULL,
    move bigint NOT NULL, -- 0: the sale
    entries text COLLATE "C" NOT NULL, -- JSON: [account, network, asset, amount, kind] each
    PRIMARY KEY (purchase_id, move)
  );

  CREATE TABLE reviews (
    id text COLLATE "C" PRIMARY KEY,
    purchase_id text COLLATE "C" NOT NULL UNIQUE,
    link_id text COLLATE "C" NOT NULL,
    store_id text COLLATE "C" NOT NULL,
    wallet text COLLATE "C" NOT NULL,
    positive smallint NOT NULL,
    comment text COLLATE "C",
    created_at_ms bigint NOT NULL
  );
  CREATE INDEX reviews_link ON reviews (link_id, created_at_ms, id);
  CREATE INDEX reviews_store ON reviews (store_id, created_at_ms, id);
  CREATE TABLE review_counts (
    link_id text COLLATE "C" PRIMARY KEY,
    total bigint NOT NULL,
    positive bigint NOT NULL
  );
`
