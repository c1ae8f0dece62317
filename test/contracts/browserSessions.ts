import type { Test } from 'tap'
import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { BrowserSessions } from '../../core/ports/store/browserSessions.ts'
import { startMs } from './samples.ts'

const HOUR_MS = 60 * 60_000

const sample = (id: string, more: Partial<BrowserSession> = {}): BrowserSession => ({
  id,
  storeId: 's1',
  tokenHash: `hash-of-${id}`,
  wallet: { chain: 'base', address: '0xabc' },
  userAgent: 'Mozilla/5.0',
  createdAtMs: startMs,
  lastSeenAtMs: startMs,
  endsAtMs: startMs + 12 * HOUR_MS,
  ...more,
})

/** What every implementation of the port BrowserSessions keeps. */
export function browserSessionsContract(
  t: Test,
  make: (t: Test) => Promise<{ browserSessions: BrowserSessions }>,
): void {
  const ids = (sessions: readonly BrowserSession[]) => sessions.map((one) => one.id)

  t.test('a session is found by its token until it ends, as it was stored', async (t) => {
    const { browserSessions } = await make(t)
    const operators = sample('op', { storeId: null, wallet: null })
    await browserSessions.add(sample('a'), startMs, 9)
    await browserSessions.add(operators, startMs, 9)
    t.strictSame(await browserSessions.byHash('hash-of-a', startMs), sample('a'))
    t.strictSame(await browserSessions.byHash('hash-of-op', startMs), operators)
    t.ok(await browserSessions.byHash('hash-of-a', startMs + 12 * HOUR_MS - 1))
    t.equal(await browserSessions.byHash('hash-of-a', startMs + 12 * HOUR_MS), undefined)
    t.equal(await browserSessions.byHash('hash-of-b', startMs), undefined)
  })

  t.test('a holder lists its own live ones, last seen first, and no others', async (t) => {
    const { browserSessions } = await make(t)
    await browserSessions.add(sample('a'), startMs, 9)
    await browserSessions.add(sample('b', { lastSeenAtMs: startMs + 1 }), startMs, 9)
    await browserSessions.add(sample('c', { endsAtMs: startMs + 5 }), startMs, 9)
    await browserSessions.add(sample('other', { storeId: 's2' }), startMs, 9)
    await browserSessions.add(sample('op', { storeId: null, wallet: null }), startMs, 9)
    t.strictSame(ids(await browserSessions.ofHolder('s1', startMs + 5)), ['b', 'a'])
    t.strictSame(ids(await browserSessions.ofHolder('s2', startMs)), ['other'])
    t.strictSame(ids(await browserSessions.ofHolder(null, startMs)), ['op'])
  })

  t.test(
    'an end is final: no other holder may, and nothing that was seen since brings it back',
    async (t) => {
      const { browserSessions } = await make(t)
      await browserSessions.add(sample('a'), startMs, 9)
      t.equal(await browserSessions.end('s2', 'a'), false)
      t.equal(await browserSessions.end(null, 'a'), false)
      t.ok(await browserSessions.byHash('hash-of-a', startMs))
      t.equal(await browserSessions.end('s1', 'a'), true)
      t.equal(await browserSessions.end('s1', 'a'), false)
      await browserSessions.touch('a', startMs + 1, startMs + 13 * HOUR_MS)
      t.equal(await browserSessions.byHash('hash-of-a', startMs), undefined)
    },
  )

  t.test('who is seen stays longer', async (t) => {
    const { browserSessions } = await make(t)
    await browserSessions.add(sample('a'), startMs, 9)
    await browserSessions.touch('a', startMs + HOUR_MS, startMs + 13 * HOUR_MS)
    t.match(await browserSessions.byHash('hash-of-a', startMs + 12 * HOUR_MS), {
      lastSeenAtMs: startMs + HOUR_MS,
      endsAtMs: startMs + 13 * HOUR_MS,
    })
  })

  t.test('of one holder so many are left, those seen last; of others nothing goes', async (t) => {
    const { browserSessions } = await make(t)
    await browserSessions.add(sample('other', { storeId: 's2' }), startMs, 1)
    await browserSessions.add(sample('op', { storeId: null, wallet: null }), startMs, 1)
    for (const [i, id] of ['a', 'b', 'c'].entries())
      await browserSessions.add(sample(id, { lastSeenAtMs: startMs + i }), startMs, 3)
    await browserSessions.touch('a', startMs + 9, startMs + 12 * HOUR_MS)
    await browserSessions.add(sample('d', { lastSeenAtMs: startMs + 10 }), startMs, 3)
    t.strictSame(ids(await browserSessions.ofHolder('s1', startMs)), ['d', 'a', 'c'])
    t.equal(await browserSessions.byHash('hash-of-b', startMs), undefined)
    t.strictSame(ids(await browserSessions.ofHolder('s2', startMs)), ['other'])
    t.strictSame(ids(await browserSessions.ofHolder(null, startMs)), ['op'])
  })
}
