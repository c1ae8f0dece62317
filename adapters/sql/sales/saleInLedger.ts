/** What databases say in words of their own. */
export interface TextSql {
  /** Whether a text begins with a digit other than 0 (`number`), or has nothing but digits (`digits`). */
  matches(text: string, what: 'number' | 'digits'): string
  /** Where one text begins in another, from 1; 0 where it does not. */
  position(text: string, part: string): string
}

/**
 * Whether the ledger has one move of a purchase, and its entries are word for word those that `entriesOfSale` makes of it, as
 * `entriesText` writes them or as it did before: then they can be read, cancel out and say what the purchase says. What is
 * unusual in the least is not: zero prices, names that JSON would have to escape, invoices of fees.
 *
 * @param u the row of `purchases`
 */
export function isSaleInLedger(u: string, { matches, position }: TextSql): string {
  const [buyer, seller, owed, own] = [
    `buyer:' || ${u}.buyer_wallet || '`,
    `seller:' || ${u}.store_id || '`,
    `fees-owed:' || ${u}.store_id || '`,
    'platform:fees',
  ]
  const [amount, fee] = [`' || ${u}.amount_atomic || '`, `' || ${u}.fee_atomic || '`]
  const feeOwed = `' || CASE ${u}.fee_atomic WHEN '0' THEN '' ELSE '-' END || '${fee}`
  const unit = `' || ${u}.network || '","' || ${u}.asset || '`
  const line = (account: string, text: string, kind: string) => `["${account}","${unit}","${text}","${kind}"]`
  const text = `["${unit}",["sale","${buyer}","-${amount}","${seller}","${amount}"],["fee","${owed}","${feeOwed}","${own}","${fee}"]]`
  const former = [
    line(buyer, `-${amount}`, 'sale'),
    line(seller, amount, 'sale'),
    line(owed, feeOwed, 'fee'),
    line(own, fee, 'fee'),
  ].join()
  const escaped = ['network', 'asset', 'buyer_wallet', 'store_id'].flatMap((column) =>
    ['"', '\\'].map((mark) => position(`${u}.${column}`, `'${mark}'`)),
  )
  return `(${matches(`${u}.amount_atomic`, 'number')} AND ${matches(`(${u}.amount_atomic || ${u}.fee_atomic)`, 'digits')}
    AND ${u}.fee_atomic <> ''
    AND ${escaped.join(' + ')} = 0 AND substr(${u}.store_id, 1, 10) <> 'fees-owed:'
    AND coalesce((SELECT count(*) = 1 AND min(entries) = CASE substr(min(entries), 1, 2)
        WHEN '[[' THEN '[${former}]' ELSE '${text}' END
      FROM ledger WHERE purchase_id = ${u}.id), false))`
}
