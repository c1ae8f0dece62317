import fc from 'fast-check'
import t from 'tap'
import { discoveryContract } from '../discovery.ts'
import { sampleKey, sampleLink, sampleStore } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('discovery in PostgreSQL', { skip }, async (t) => discoveryContract(t, makePostgres))

t.test(
  'a store whose name or payout has changed is listed as if it had always been so',
  { skip },
  async (t) => {
    const { stores, links, database } = await makePostgres(t)
    const listed = async () =>
      (
        await database.pool.query(
          'SELECT link_id, words::text, price, paid_on_base, paid_on_solana FROM listings ORDER BY link_id',
        )
      ).rows
    const word = fc.constantFrom('chess', 'Chess-Club', 'news', 'Älteste', '9.99', 'the', '')
    const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(' '))
    const payout = fc.constantFrom(null, '0x00000000000000000000000000000000000000aa')
    const change = fc.record({
      displayName: text,
      username: fc.constantFrom('chess_news', 'the_other', 'third'),
      payout: fc.record({ base: payout, solana: fc.constantFrom(null, '11111111111111111111111111111111') }),
    })
    let n = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ title: text, description: text, tags: fc.array(word, { maxLength: 3 }) }), {
          maxLength: 4,
        }),
        fc.array(change, { minLength: 1, maxLength: 4 }),
        async (texts, changes) => {
          const storeId = `s${++n}`
          await stores.create(sampleStore(storeId), null, sampleKey(`k${n}`, storeId))
          for (const [i, one] of texts.entries())
            await links.create({
              ...sampleLink(`${storeId}-${i}`, storeId),
              ...one,
              slug: `l-${i}`,
              price: i % 2 ? '0' : '0.5',
            })
          for (const { username, ...patch } of changes)
            await stores.update(storeId, { ...patch, username: `${username}_${n}` }, 2_000)
          const kept = await listed()
          await database.pool.query('DELETE FROM listings')
          await database.pool.query('SELECT list_links(ARRAY(SELECT id FROM links))')
          t.strictSame(kept, await listed())
          await database.pool.query('UPDATE links SET is_active = 0')
        },
      ),
      { numRuns: 25 },
    )
  },
)
