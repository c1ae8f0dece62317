import type { Test } from 'tap'
import type { GasBook } from '../../core/ports/store/gasBook.ts'

const base = 'eip155:8453'
const solana = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'

/** What every book of gas promises. @param reopen the same book, opened by another process */
export async function gasBookContract(t: Test, book: GasBook, reopen: () => Promise<GasBook>): Promise<void> {
  const wei = 10n ** 30n + 1n
  t.equal(await book.add(base, { storeId: 'a', day: 5, spent: 1n }), 1n)
  t.equal(await book.add(base, { storeId: 'a', day: 5, spent: wei }), wei + 1n)
  t.equal(await book.add(base, { storeId: 'a', day: 5, spent: -1n }), wei)
  t.equal(await book.add(base, { storeId: 'b', day: 6, spent: 2n }), 2n)
  t.equal(await book.add(solana, { storeId: 'a', day: 5, spent: 3n }), 3n)
  const other = await reopen()
  for (const one of [book, other]) {
    t.same(await one.read(base, 5), [
      { storeId: 'a', day: 5, spent: wei },
      { storeId: 'b', day: 6, spent: 2n },
    ])
    t.same(await one.read(base, 6), [{ storeId: 'b', day: 6, spent: 2n }])
    t.same(await one.read(solana, 0), [{ storeId: 'a', day: 5, spent: 3n }])
  }
  const added = [book, other, book, other].map((one) => one.add(solana, { storeId: 'c', day: 5, spent: 10n }))
  const rollups = await Promise.all(added)
  t.same(rollups.toSorted(), [10n, 20n, 30n, 40n], 'nothing of what several add at once is lost')
  await book.add(base, { storeId: 'a', day: 90, spent: 4n })
  t.same(
    (await book.read(base, 0)).filter(({ storeId }) => storeId === 'a'),
    [{ storeId: 'a', day: 90, spent: 4n }],
    'days long past go',
  )
}
