import type { Test } from 'tap'
import type { GasBook } from '../../core/ports/store/gasBook.ts'

const base = 'eip155:8453'
const solana = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'

/** What every book of gas promises. @param reopen the same book, opened by another process */
export async function gasBookContract(t: Test, book: GasBook, reopen: () => Promise<GasBook>): Promise<void> {
  const wei = 10n ** 30n + 1n
  await book.write(base, { storeId: 'a', day: 5, spent: 1n })
  await book.write(base, { storeId: 'a', day: 5, spent: wei })
  await book.write(base, { storeId: 'b', day: 6, spent: 2n })
  await book.write(solana, { storeId: 'a', day: 5, spent: 3n })
  for (const one of [book, await reopen()]) {
    t.same(await one.read(base, 5), [
      { storeId: 'a', day: 5, spent: wei },
      { storeId: 'b', day: 6, spent: 2n },
    ])
    t.same(await one.read(base, 6), [{ storeId: 'b', day: 6, spent: 2n }])
    t.same(await one.read(solana, 0), [{ storeId: 'a', day: 5, spent: 3n }])
  }
  await book.write(base, { storeId: 'a', day: 90, spent: 4n })
  t.same(
    (await book.read(base, 0)).filter(({ storeId }) => storeId === 'a'),
    [{ storeId: 'a', day: 90, spent: 4n }],
    'days long past go',
  )
}
